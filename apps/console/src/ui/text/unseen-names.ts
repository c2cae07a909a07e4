/** The characters of which names are made that look like other names, as Unicode calls them. */
const NAMES: Readonly<Record<string, string>> = {
  '5c': 'backslash',
  a0: 'no-break space',
  ad: 'soft hyphen',
  '200b': 'zero width space',
  '200c': 'zero width non-joiner',
  '200d': 'zero width joiner',
  '200e': 'left-to-right mark',
  '200f': 'right-to-left mark',
  '202a': 'left-to-right embedding',
  '202b': 'right-to-left embedding',
  '202c': 'pop directional formatting',
  '202d': 'left-to-right override',
  '202e': 'right-to-left override',
  '2060': 'word joiner',
  '2066': 'left-to-right isolate',
  '2067': 'right-to-left isolate',
  '2068': 'first strong isolate',
  '2069': 'pop directional isolate',
  '3000': 'ideographic space',
  '3164': 'Hangul filler',
  feff: 'zero width no-break space',
};

/** `\u{202e}` as a person reads it: `U+202E, right-to-left override`. */
export function unseenName(escape: string): string {
  const code = escape.slice(3, -1);
  const point = `U+${code.toUpperCase().padStart(4, '0')}`;
  const name = NAMES[code];
  return name === undefined ? point : `${point}, ${name}`;
}
