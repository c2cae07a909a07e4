import picocolors from 'picocolors';

/** Colours for people at a terminal; plain text for everybody else. Never the only sign. */
export interface Style {
  good(text: string): string;
  warn(text: string): string;
  bad(text: string): string;
  faint(text: string): string;
  strong(text: string): string;
}

export function createStyle(isColourful: boolean): Style {
  const colors = picocolors.createColors(isColourful);
  return {
    good: colors.green,
    warn: colors.yellow,
    bad: colors.red,
    faint: colors.dim,
    strong: colors.bold,
  };
}
