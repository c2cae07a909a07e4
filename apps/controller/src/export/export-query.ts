import { LIMITS, LeaseError } from '@leasehold/keys-core';
import type { ExportList } from './export-lists.ts';

export type ExportFormat = 'json' | 'csv';

/** What an address requests. */
export interface ExportRequest {
  readonly format: ExportFormat;
  /** The input of the list's procedure, without a cursor. */
  readonly input: Readonly<Record<string, unknown>>;
}

/** Texts of an address that stand for another kind of value. */
const WORDS: Readonly<Record<string, unknown>> = { true: true, false: false };
const BOOLEANS = ['includeChildren', 'signIns', 'withoutOwn'];
const NUMBERS = ['endedWithinMs', 'windowMinutes'];
const LISTS = ['kinds'];

/**
 * Reads the query of an address: `format`, and the filters of the list. The export chooses
 * the pages by itself; a request cannot.
 * @throws {LeaseError} `request.invalid` for `format`; {ZodError} that names any other field.
 */
export function readExportQuery(list: ExportList, query: unknown): ExportRequest {
  const { format, ...filters } = query as Record<string, string | string[]>;
  if (format !== undefined && format !== 'json' && format !== 'csv') {
    throw invalid('format', 'must be "json" or "csv"');
  }
  for (const field of ['cursor', 'limit']) {
    if (field in filters) throw invalid(field, 'is not a filter: an export has no pages');
  }
  const wanted = Object.fromEntries(
    Object.entries(filters).map(([field, text]) => [field, valueOf(field, text)]),
  );
  const input = { ...list.defaults, ...wanted, limit: LIMITS.pageSizeMax };
  // As the procedure will do it, but before anything is sent, and for all fields at once.
  list.inputSchema.parse(input);
  return { format: format ?? 'json', input };
}

function valueOf(field: string, text: string | string[]): unknown {
  if (LISTS.includes(field)) return Array.isArray(text) ? text : text.split(',');
  if (NUMBERS.includes(field) && /^\d+$/u.test(String(text))) return Number(text);
  return BOOLEANS.includes(field) && typeof text === 'string' ? (WORDS[text] ?? text) : text;
}

function invalid(field: string, problem: string): LeaseError {
  return new LeaseError('request.invalid', `${field}: ${problem}`, { details: { field } });
}
