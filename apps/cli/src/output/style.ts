import picocolors from 'picocolors';

/** Colours for people at a terminal; plain text for everybody else. Never the only sign. */
export type Style = ReturnType<typeof createStyle>;

export function createStyle(isColourful: boolean) {
  const colors = picocolors.createColors(isColourful);
  return {
    good: colors.green,
    warn: colors.yellow,
    bad: colors.red,
    faint: colors.dim,
    strong: colors.bold,
  };
}
