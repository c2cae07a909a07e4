import Table from 'cli-table3';

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
