import { styleText } from 'node:util';

/** Colours for people at a terminal; plain text for everybody else. Never the only sign. */
export type Style = ReturnType<typeof createStyle>;

export function createStyle(isColourful: boolean) {
  // The caller has decided: Node would look at the standard output, which may be a file.
  const options = { validateStream: false };
  const as = (format: Parameters<typeof styleText>[0]) => (text: string) =>
    isColourful ? styleText(format, text, options) : text;
  return {
    good: as('green'),
    warn: as('yellow'),
    bad: as('red'),
    faint: as('dim'),
    strong: as('bold'),
  };
}
