/**
 * The search language of the lists: words of the form `field:value`, and at most one bare word.
 * A bare word is a part of the name as it is printed; in quotes, or with `=` before it, the whole name.
 * `holder:drone-1 phase:expiring room-` · `boards.eu/q4` · `"room-1"` · `=room-1` · `tag:"two words"`.
 */
export interface Search {
  readonly name?: string;
  /** A part of the name as it is printed, with its namespace, whatever its case. */
  readonly contains?: string;
  readonly fields: Readonly<Record<string, string>>;
  /** What could not be understood, to be shown beside the box. */
  readonly problems: readonly string[];
}

const WORD = /(?:([a-z]+):)?(?:"([^"]*)"|(\S+))/giu;

/** Reads a search; only the given fields are known. */
export function parseSearch(text: string, known: readonly string[]): Search {
  const fields: Record<string, string> = {};
  const problems: string[] = [];
  let named: { name: string } | { contains: string } | undefined;
  for (const [whole, rawField, quoted, bare] of text.matchAll(WORD)) {
    const field = rawField?.toLowerCase();
    const value = quoted ?? bare ?? '';
    if (field !== undefined && known.includes(field)) {
      if (value === '') problems.push(`${field}: needs a value`);
      else fields[field] = value;
    } else if (named !== undefined) {
      problems.push(`one name at a time: "${whole}" is too many`);
    } else {
      named = nameOf(whole, field === undefined ? quoted : undefined);
    }
  }
  return { ...named, fields, problems };
}

function nameOf(
  whole: string,
  quoted: string | undefined,
): { name: string } | { contains: string } {
  if (quoted !== undefined) return { name: quoted };
  return whole.startsWith('=') && whole.length > 1 ? { name: whole.slice(1) } : { contains: whole };
}

// Changes of a search's text, for menus that stand beside its box.

/** `holder:"two words"`: one field as the search language writes it. */
export function fieldText(field: string, value: string): string {
  return /[\s"]/u.test(value) ? `${field}:"${value.replaceAll('"', '')}"` : `${field}:${value}`;
}

/** The search with this field set to a value, or without it; everything else stays. */
export function withField(text: string, field: string, value: string | null): string {
  const without = text
    .replaceAll(new RegExp(`(^|\\s)${field}:(?:"[^"]*"|\\S+)`, 'giu'), '$1')
    .replaceAll(/\s+/gu, ' ')
    .trim();
  if (value === null || value === '') return without;
  return without === '' ? fieldText(field, value) : `${without} ${fieldText(field, value)}`;
}
