/**
 * An export as text, piece by piece. JSON is one array with an object on each line; CSV is as in
 * RFC 4180, with a line of names first. A cell that a spreadsheet would take for a formula begins with an
 * apostrophe.
 */
import { stringify } from 'csv-stringify/sync';
import type { ExportFormat } from './export-query.ts';

export interface ExportText {
  readonly contentType: string;
  readonly begin: string;
  /** The text of a page, which follows `begin` or another page. */
  page(items: readonly object[]): string;
  readonly end: string;
}

/** The text of one export; it remembers its position, so each export has its own. */
export function createExportText(format: ExportFormat, columns: readonly string[]): ExportText {
  return format === 'csv' ? csvText(columns) : jsonText();
}

function jsonText(): ExportText {
  let separator = '\n';
  return {
    contentType: 'application/json; charset=utf-8',
    begin: '[',
    page(items) {
      let text = '';
      for (const item of items) {
        text += `${separator}${JSON.stringify(item)}`;
        separator = ',\n';
      }
      return text;
    },
    end: '\n]\n',
  };
}

/** The library quotes text with the whole delimiter; for many readers half of it ends a line. */
const CSV = { record_delimiter: '\r\n', quoted_match: /[\r\n]/u, escape_formulas: true } as const;

function csvText(columns: readonly string[]): ExportText {
  const paths = columns.map((column) => column.split('.'));
  return {
    contentType: 'text/csv; charset=utf-8; header=present',
    begin: stringify([columns], CSV),
    page: (items) =>
      stringify(
        items.map((item) => paths.map((path) => cellOf(valueAt(item, path)))),
        CSV,
      ),
    end: '',
  };
}

function valueAt(item: object, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, step) =>
      typeof value === 'object' && value !== null
        ? (value as Record<string, unknown>)[step]
        : undefined,
    item,
  );
}

function cellOf(value: unknown): string | number {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string' || typeof value === 'number') return value;
  return JSON.stringify(value);
}
