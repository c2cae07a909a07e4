/** The results of measurements, and how they are shown. */

export interface Figure {
  readonly what: string;
  readonly ours: string;
  readonly theirs: string;
  readonly result: string;
  /** Left out where two things are printed beside each other and neither is a limit. */
  readonly goal?: string | undefined;
  readonly isMet?: boolean | undefined;
}

const COUNT = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

export function perSecond(rate: number): string {
  return `${COUNT.format(rate)}/s`;
}

export function times(ratio: number): string {
  return `${ratio.toFixed(2)}x`;
}

export function milliseconds(ms: number): string {
  return `${ms.toFixed(1)} ms`;
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

const HEAD = ['measured', 'ours', 'against', 'result', 'goal', ''];

/** The figures as a table in plain text, one line each. */
export function tableOf(figures: readonly Figure[]): string {
  const lines = [
    HEAD,
    ...figures.map(({ what, ours, theirs, result, goal, isMet }) => [
      what,
      ours,
      theirs,
      result,
      goal ?? '',
      verdict(isMet),
    ]),
  ];
  const widths = HEAD.map((_, column) =>
    Math.max(...lines.map((line) => line[column]?.length ?? 0)),
  );
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function verdict(isMet: boolean | undefined): string {
  if (isMet === undefined) return '';
  return isMet ? 'met' : 'NOT MET';
}
