import { styleText } from 'node:util';
import { printableText } from '@leasehold/keys-core';
import Table from 'cli-table3';

/**
 * A text as it may be shown in a terminal: what would move the cursor, change colours, reorder or
 * hide characters is written as an escape, and a text that begins or ends with a space, is empty, or
 * begins with a quote, is quoted. A name is shown so that it can be told from every other name.
 */
export function printable(text: string): string {
  const escaped = printableText(text);
  return escaped === '' || /^[\s"]|\s$/u.test(escaped) ? JSON.stringify(escaped) : escaped;
}

/** As {@link printable}, for a value that may be missing. */
export function printableOr(text: string | null | undefined, missing = '-'): string {
  return text === null || text === undefined || text === '' ? missing : printable(text);
}

/** What a program has written, below a text: its lines, each indented. */
export function indentedLines(output: string): string {
  return output
    .split('\n')
    .map((line) => `  ${printableText(line)}`)
    .join('\n');
}

/** How much of a name may be mistyped: as Commander judges commands and options. */
const LIKE_DISTANCE_MAX = 3;
const LIKE_SHARE_MIN = 0.4;
/** Comparing takes time by the square of the length. */
const LIKE_LENGTH_MAX = 100;

/** The name that was probably meant by a mistyped one. */
export function likeIn(names: readonly string[], typed: string): string | undefined {
  if (typed.length > LIKE_LENGTH_MAX) return undefined;
  const judged = names
    .filter((name) => name.length <= LIKE_LENGTH_MAX)
    .map((name) => ({ name, distance: editsBetween(typed, name) }))
    .filter(({ name, distance }) => {
      const length = Math.max(name.length, typed.length);
      return distance <= LIKE_DISTANCE_MAX && (length - distance) / length > LIKE_SHARE_MIN;
    });
  return judged.toSorted((one, other) => one.distance - other.distance)[0]?.name;
}

/** How many characters are to be put in, taken out, changed, or changed places with their neighbour. */
function editsBetween(one: string, other: string): number {
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_value, index) => index);
  for (let at = 1; at <= one.length; at += 1) {
    const row = [at];
    for (let to = 1; to <= other.length; to += 1) {
      const cost = one[at - 1] === other[to - 1] ? 0 : 1;
      const isSwapped = one[at - 1] === other[to - 2] && one[at - 2] === other[to - 1];
      row.push(
        Math.min(
          (last[to] ?? 0) + 1,
          (row[to - 1] ?? 0) + 1,
          (last[to - 1] ?? 0) + cost,
          isSwapped ? (before[to - 2] ?? Infinity) + 1 : Infinity,
        ),
      );
    }
    before = last;
    last = row;
  }
  return last[other.length] ?? 0;
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/**
 * A duration for people, never longer than it is: `850 ms`, `41.2 s`, `3 m 12 s`, `2 h 05 m`,
 * `4 d 03 h`. Rounded down, so that a key never seems to have more time left than it has.
 */
export function durationText(durationMs: number): string {
  const ms = Math.max(0, Math.floor(durationMs));
  if (ms < SECOND_MS) return `${String(ms)} ms`;
  if (ms < MINUTE_MS) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  if (ms < HOUR_MS) return twoUnits(ms, [MINUTE_MS, 'm'], [SECOND_MS, 's']);
  if (ms < DAY_MS) return twoUnits(ms, [HOUR_MS, 'h'], [MINUTE_MS, 'm']);
  return twoUnits(ms, [DAY_MS, 'd'], [HOUR_MS, 'h']);
}

type Unit = readonly [sizeMs: number, letter: string];

function twoUnits(ms: number, [largeMs, large]: Unit, [smallMs, small]: Unit): string {
  const rest = String(Math.floor((ms % largeMs) / smallMs)).padStart(2, '0');
  return `${String(Math.floor(ms / largeMs))} ${large} ${rest} ${small}`;
}

/**
 * How long before `asOf` an instant was, both in ISO-8601 and by the same clock: the database's.
 * The clock of the machine that the command runs on is not used.
 */
export function agoText(at: string | null, asOf: string): string {
  if (at === null) return 'never';
  const elapsedMs = Date.parse(asOf) - Date.parse(at);
  return elapsedMs < 0 ? `in ${durationText(-elapsedMs)}` : `${durationText(elapsedMs)} ago`;
}

/** A column: its heading and the text of a row in it. A column without any text is left out. */
export interface Column<Row> {
  readonly head: string;
  readonly text: (row: Row) => string;
  readonly align?: 'left' | 'right';
  /** Only with `-o wide`. */
  readonly isWide?: true;
}

/** The columns, with the datacenter as the last one where somebody asked for one or for all. */
export function placed<Row extends { readonly datacenter: string }>(
  columns: readonly Column<Row>[],
  datacenter: string | undefined,
): readonly Column<Row>[] {
  return datacenter === undefined
    ? columns
    : [...columns, { head: 'datacenter', text: (row) => row.datacenter }];
}

/** Without rules or colours, so that it can be read aloud, cut and grepped. */
const BORDERLESS = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '  ',
};

/** The rows as an aligned table with a heading; columns where every row says '' are left out. */
export function tableText<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string {
  const shown = columns.filter((column) => rows.some((row) => column.text(row) !== ''));
  const table = new Table({
    head: shown.map((column) => column.head.toUpperCase()),
    colAligns: shown.map((column) => column.align ?? 'left'),
    chars: BORDERLESS,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  for (const row of rows) table.push(shown.map((column) => column.text(row)));
  return trimLines(table.toString());
}

/** Names and values, one pair per line, the values aligned. */
export function detailsText(details: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...details.map(([name]) => name.length));
  return details.map(([name, value]) => `${name.padEnd(width)}  ${value}`).join('\n');
}

function trimLines(text: string): string {
  return text
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}

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
