/** The results of measurements, and how they are shown. */

export type Unit = '/s' | 'x' | 'ms' | 'us' | 'bytes' | 'MB' | 'cores' | '%' | 'share' | 'count';

export interface Quantity {
  readonly value: number;
  readonly unit: Unit;
}

/** A limit of a result, in the result's unit. */
export interface Bound {
  readonly is: 'at least' | 'at most' | 'about';
  readonly value: number;
  /** How far a result may be away. */
  readonly by?: number;
}

/** Where a figure is in a chart: one bar of a group. */
export interface Bar {
  readonly chart: string;
  readonly group: string;
  readonly name: string;
  /** Whether the bars of a group are parts of a whole. */
  readonly isStacked?: boolean;
}

/** How something went on during a measurement. */
export interface Course {
  readonly atS: readonly number[];
  readonly values: readonly number[];
}

export interface Figure {
  readonly what: string;
  readonly ours?: Quantity | undefined;
  /** What ours is compared with, and its name. */
  readonly theirs?: Quantity | undefined;
  readonly peer?: string | undefined;
  readonly result: Quantity;
  /** Left out where a figure is printed for information. */
  readonly required?: Bound | undefined;
  readonly goal?: Bound | undefined;
  readonly bar?: Bar | undefined;
  readonly course?: Course | undefined;
}

const COUNT = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** How many digits after the point a unit is shown with. */
const DIGITS: Record<Unit, number> = {
  '/s': 0,
  x: 2,
  ms: 2,
  us: 0,
  bytes: 0,
  MB: 1,
  cores: 2,
  '%': 2,
  share: 3,
  count: 0,
};

export function textOf({ value, unit }: Quantity): string {
  const digits = DIGITS[unit];
  const number = digits === 0 ? COUNT.format(value) : value.toFixed(digits);
  if (unit === 'count' || unit === 'share') return number;
  return unit === '/s' || unit === 'x' || unit === '%' ? `${number}${unit}` : `${number} ${unit}`;
}

export function boundText(bound: Bound, unit: Unit): string {
  const sign = { 'at least': '>=', 'at most': '<=', about: 'about' }[bound.is];
  return `${sign} ${textOf({ value: bound.value, unit })}`;
}

export function meets({ value }: Quantity, bound: Bound): boolean {
  if (bound.is === 'at least') return value >= bound.value;
  if (bound.is === 'at most') return value <= bound.value;
  return Math.abs(value - bound.value) <= (bound.by ?? 0);
}

/** What became of a figure with a limit. */
export function verdictOf({ result, required, goal }: Figure): string {
  if (required === undefined) return '';
  if (!meets(result, required)) return 'NOT MET';
  return goal !== undefined && meets(result, goal) ? 'goal' : 'met';
}

export const HEAD = ['measured', 'result', 'required', 'goal', '', 'ours', 'against'];

/** The cells of a figure, in the order of {@link HEAD}. */
export function cellsOf(figure: Figure): string[] {
  const { what, ours, theirs, peer, result, required, goal } = figure;
  const { unit } = result;
  return [
    what,
    textOf(result),
    required === undefined ? '' : boundText(required, unit),
    goal === undefined ? '' : boundText(goal, unit),
    verdictOf(figure),
    ours === undefined ? '' : textOf(ours),
    theirs === undefined ? '' : `${textOf(theirs)}${peer === undefined ? '' : ` (${peer})`}`,
  ];
}

/** The figures as a table in plain text, one line each. */
export function tableOf(figures: readonly Figure[]): string {
  const lines = [HEAD, ...figures.map(cellsOf)];
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
