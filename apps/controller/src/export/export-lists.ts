import { appRouter, type ApiContext, type UnreachableDatacenter } from '@leasehold/api';
import {
  auditListInputSchema,
  environmentListInputSchema,
  eventListInputSchema,
  keyListInputSchema,
  leaseListInputSchema,
  reservationListInputSchema,
} from '@leasehold/api/contract';
import { LeaseError, LIMITS } from '@leasehold/keys-core';
import { stringify } from 'csv-stringify/sync';
import type { z } from 'zod';

/** The API as one caller may use it, without a wire in between. */
type ApiCaller = ReturnType<typeof appRouter.createCaller>;

type Item = Readonly<Record<string, unknown>>;

/** One page of a list, and where the next one begins. */
interface ExportPage {
  readonly items: readonly object[];
  readonly nextCursor: string | null;
  /** The datacenters that are missing from the page; the audit is always of one datacenter. */
  readonly unreachable?: readonly UnreachableDatacenter[];
}

/** A list that can be exported: its input, how it is read, and its columns as CSV. */
export interface ExportList {
  readonly inputSchema: z.ZodType;
  /** Reads a page as the list's own procedure does: with its checks, its limits and its role. */
  readonly readPage: (api: ApiCaller, input: Item) => Promise<ExportPage>;
  /** Names of fields; a dot leads to a nested field. */
  readonly columns: readonly string[];
  /** The order if the request names none. */
  readonly defaults?: Item;
}

const GRANT_COLUMNS = [
  'phase',
  'leaseId',
  'fencingToken',
  'holder',
  'grantedAt',
  'renewedAt',
  'expiresAt',
  'remainingMs',
  'renewable',
  'ladder.renewAfterMs',
  'ladder.softAfterMs',
  'ladder.hardAfterMs',
  'ladder.ttlMs',
  'stopsBy',
  'endReason',
  'releasedAt',
  'waiters',
  'datacenter',
  'asOf',
];

const LEASE_COLUMNS = ['namespace', 'name', 'action', ...GRANT_COLUMNS, 'comment', 'metadata'];

const EXPORT_LISTS: Readonly<Record<string, ExportList>> = {
  keys: {
    inputSchema: keyListInputSchema,
    readPage: (api, input) => api.keys.list(input),
    columns: [
      'namespace',
      'name',
      'tag',
      ...GRANT_COLUMNS,
      'droneId',
      'backendId',
      'backendStatus',
      'backendEnd.reason',
      'backendEnd.exitCode',
      'backendEnd.hasFailed',
    ],
  },
  leases: {
    inputSchema: leaseListInputSchema,
    readPage: (api, input) => api.leases.list(input),
    columns: LEASE_COLUMNS,
  },
  environments: {
    inputSchema: environmentListInputSchema,
    readPage: (api, input) => api.environments.list(input),
    columns: LEASE_COLUMNS,
  },
  reservations: {
    inputSchema: reservationListInputSchema,
    readPage: (api, input) => api.reservations.list(input),
    columns: [
      'key',
      'reservationId',
      'datacenter',
      'state',
      'chain',
      'movedTo',
      'activatedAt',
      'activatedBy',
      'movedAt',
      'movedBy',
      'moveReason',
    ],
  },
  events: {
    inputSchema: eventListInputSchema,
    readPage: (api, input) => api.events.list(input),
    columns: [
      'id',
      'at',
      'face',
      'namespace',
      'name',
      'leaseId',
      'fencingToken',
      'kind',
      'actor',
      'reason',
      'detail',
      'datacenter',
    ],
    defaults: { direction: 'asc' },
  },
  audit: {
    inputSchema: auditListInputSchema,
    readPage: (api, input) => api.audit.list(input),
    columns: ['id', 'at', 'actor', 'role', 'action', 'resource', 'reason', 'source', 'detail'],
  },
};

/** The list with this name in an address; undefined for any other name. */
export function exportListOf(name: string): ExportList | undefined {
  return Object.hasOwn(EXPORT_LISTS, name) ? EXPORT_LISTS[name] : undefined;
}

type ExportFormat = 'json' | 'csv';

/** What an address requests. */
interface ExportRequest {
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

/** Rows of one export. A caller that wants more requests parts, such as a namespace or a month. */
const EXPORT_ROWS_MAX = 1_000_000;

type Pages = AsyncGenerator<readonly object[], undefined>;

/** The pages of a list, each read when it is asked for. */
export async function* pagesOf(
  list: ExportList,
  { input }: ExportRequest,
  context: ApiContext,
): Pages {
  const api = appRouter.createCaller(context);
  let cursor: string | undefined;
  do {
    const page: ExportPage = await list.readPage(api, { ...input, cursor });
    assertWhole(page);
    yield page.items;
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
}

/**
 * A file of all datacenters must not be taken for complete when one of them is missing.
 * @throws {LeaseError} `reservation.datacenter_unreachable`.
 */
function assertWhole({ unreachable = [] }: ExportPage): void {
  const [missing] = unreachable;
  if (missing === undefined) return;
  const { datacenter, code } = missing;
  throw new LeaseError(
    'reservation.datacenter_unreachable',
    `The datacenter "${datacenter}" cannot be reached now, so the export would be incomplete.`,
    { details: { datacenter, code } },
  );
}

/**
 * The text of an export, piece by piece. @throws {LeaseError} `request.too_large` in place of what is
 * over {@link EXPORT_ROWS_MAX}, so that a part is not taken for all.
 */
export async function* textOf(
  first: IteratorResult<readonly object[], undefined>,
  pages: Pages,
  text: ExportText,
  rowsMax: number = EXPORT_ROWS_MAX,
): AsyncGenerator<string, void> {
  let rowCount = 0;
  yield text.begin;
  for (let page = first; page.done !== true; page = await pages.next()) {
    rowCount += page.value.length;
    if (rowCount > rowsMax) {
      throw new LeaseError('request.too_large', `An export has ${String(rowsMax)} rows at most.`);
    }
    yield text.page(page.value);
  }
  yield text.end;
}

// An export as text, piece by piece. JSON is one array with an object on each line; CSV is as in
// RFC 4180, with a line of names first. A cell that a spreadsheet would take for a formula begins with an
// apostrophe.

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
