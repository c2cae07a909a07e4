import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from './world.ts';

/** The rows of a table that is written as text: one in each line, its cells between bars. */
export function table<Column extends string>(
  columns: readonly Column[],
  text: string,
): Readonly<Record<Column, string>>[] {
  return text
    .trim()
    .split('\n')
    .map((line) => {
      const cells = line.split('|').map((cell) => cell.trim());
      const named = columns.map((column, place) => [column, cells[place] ?? '']);
      return Object.fromEntries(named) as Record<Column, string>;
    });
}

/** Values by the name that `nameOf` gives each, in the order in which the names are met first. */
export function grouped<Value>(
  values: readonly Value[],
  nameOf: (value: Value) => string,
): Map<string, Value[]> {
  const groups = new Map<string, Value[]>();
  for (const value of values) {
    const name = nameOf(value);
    groups.set(name, [...(groups.get(name) ?? []), value]);
  }
  return groups;
}

/** What stands between spaces and ends of lines. */
export function words(text: string): string[] {
  return text.split(/\s+/u).filter((word) => word !== '');
}

const UNITS: Readonly<Record<string, number>> = {
  s: SECOND_MS,
  m: MINUTE_MS,
  h: HOUR_MS,
  d: DAY_MS,
};

/** A duration that is written as `90s`, `6.5m`, `27h` or `12d`, in milliseconds. */
export function msOf(text: string): number {
  return Number(text.slice(0, -1)) * (UNITS[text.slice(-1)] ?? Number.NaN);
}
