/**
 * `GET /export/<list>?format=json|csv&…`: a whole list as a file, with the filters and the access of
 * the list itself. It is read page by page, as fast as the client takes it, and never in memory as a
 * whole. Rows that are granted, renewed or released meanwhile are shown as they were when their page
 * was read.
 *
 * Once the first bytes are sent there is no status left to say that something failed. Then the
 * connection is reset, so that nobody takes half a file for a whole one, not even over HTTP/1.0: a file
 * is complete if the answer ended by itself.
 */
import { Readable } from 'node:stream';
import {
  describeError,
  type Access,
  type ApiContext,
  appRouter,
  type UnreachableDatacenter,
} from '@leasehold/api';
import {
  auditListInputSchema,
  environmentListInputSchema,
  eventListInputSchema,
  keyListInputSchema,
  leaseListInputSchema,
  reservationListInputSchema,
} from '@leasehold/api/contract';
import { LeaseError, LIMITS } from '@leasehold/keys-core';
import type { Logger } from '@leasehold/service-kit';
import type { ConnectionGuard } from '@leasehold/service-kit/connection-guard';
import { stringify } from 'csv-stringify/sync';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { once } from '../fair-use/pacing.ts';
import {
  callerOf,
  contextOf,
  httpCaller,
  requireCaller,
  type ContextDeps,
} from './request-context.ts';
import type { OpenConnections } from './sockets/open-connections.ts';

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
interface ExportList {
  readonly inputSchema: z.ZodType;
  /** Reads a page as the list's own procedure does: with its checks, its limits and its role. */
  readonly readPage: (api: ApiCaller, input: Item) => Promise<ExportPage>;
  /** Names of fields; a dot leads to a nested field. */
  readonly columns: readonly string[];
  /** The order if the request names none. */
  readonly defaults?: Item;
}

const GRANT_FIELDS = [
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

const LEASE_FIELDS = [
  'namespace',
  'name',
  'action',
  ...GRANT_FIELDS,
  'comment',
  'metadata',
  'mode',
];

const EXPORT_LISTS: Readonly<Record<string, ExportList>> = {
  keys: {
    inputSchema: keyListInputSchema,
    readPage: (api, input) => api.keys.list(input),
    columns: [
      'namespace',
      'name',
      'tag',
      ...GRANT_FIELDS,
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
    columns: LEASE_FIELDS,
  },
  environments: {
    inputSchema: environmentListInputSchema,
    readPage: (api, input) => api.environments.list(input),
    columns: LEASE_FIELDS,
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
function exportListOf(name: string): ExportList | undefined {
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
function readExportQuery(list: ExportList, query: unknown): ExportRequest {
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

const BUFFERED_BYTES_MAX = 64 * 1_024;

export interface ExportDeps extends ContextDeps {
  readonly connections: OpenConnections;
  readonly guard: ConnectionGuard;
  readonly log: Logger;
}

/** Mounts the exports of all lists. See the top of this file. */
export async function mountExport(server: FastifyInstance, deps: ExportDeps): Promise<void> {
  const places = createExportPlaces();
  await server.register((scope, _options, done) => {
    requireCaller(scope, deps);
    mountLists(scope, deps, places);
    done();
  });
}

function mountLists(scope: FastifyInstance, deps: ExportDeps, places: ExportPlaces): void {
  scope.get<{ Params: { list: string } }>(
    '/export/:list',
    { exposeHeadRoute: false },
    async (request, reply) => {
      const list = exportListOf(request.params.list);
      if (list === undefined) throw new LeaseError('request.not_found');
      const gone = new AbortController();
      reply.raw.once('close', () => gone.abort());
      const caller = callerOf(request.raw);
      const life = httpCaller(request.raw, gone.signal);
      const { access } = caller;
      const use = caller.use.inBackground();
      const context = contextOf(deps, request.raw, { access, use, life });
      const leave = places.take(access.principal);
      whenGone(context.signal, leave);
      return send(deps, { list, name: request.params.list, context, access, request, reply });
    },
  );
}

interface Exported {
  readonly list: ExportList;
  readonly name: string;
  readonly context: ApiContext;
  readonly access: Access;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

async function send(deps: ExportDeps, exported: Exported): Promise<FastifyReply> {
  const { list, name, context, access, request, reply } = exported;
  const asked = readExportQuery(list, request.query);
  const pages = pagesOf(list, asked, context);
  // Before anything is sent, so that a refusal still has a status.
  const first = await pages.next();
  const { format } = asked;
  const text = createExportText(format, list.columns);
  const stream = streamOf(deps, textOf(first, pages, text), {
    list: name,
    actor: access.name,
    requestId: request.id,
  });
  const cutOff = (): void => {
    if (!stream.readableEnded && reply.raw.headersSent) reply.raw.socket?.resetAndDestroy();
  };
  // Whichever comes first, because it must run before Fastify ends the connection in good order.
  stream.once('error', cutOff).once('close', cutOff);
  const forget = deps.connections.add(access, () => {
    // At once, because the stream closes only when its query to the database has ended.
    cutOff();
    stream.destroy();
  });
  whenGone(context.signal, () => {
    stream.destroy();
    forget();
  });
  const at = (await context.services.now()).slice(0, 19).replaceAll(':', '-');
  return reply
    .type(text.contentType)
    .header('content-disposition', `attachment; filename="leasehold-${name}-${at}Z.${format}"`)
    .header('x-content-type-options', 'nosniff')
    .send(stream);
}

/** Calls `leave` when the answer is over, at once if it is already. */
function whenGone(signal: AbortSignal, leave: () => void): void {
  if (signal.aborted) leave();
  else signal.addEventListener('abort', leave, { once: true });
}

/** A stream that produces text as fast as the client reads it. */
function streamOf(
  { log }: ExportDeps,
  pieces: AsyncGenerator<string, void>,
  what: { readonly list: string; readonly actor: string; readonly requestId: string },
): Readable {
  async function* filled(): AsyncGenerator<string, void> {
    // An empty piece would be taken for nothing, and asked for again.
    for await (const piece of pieces) if (piece !== '') yield piece;
  }
  const stream = Readable.from(filled(), {
    objectMode: false,
    highWaterMark: BUFFERED_BYTES_MAX,
  });
  stream.on('error', (error) => {
    const { incidentId, leaseholdCode } = describeError(error);
    log.warn({ ...what, incidentId, leaseholdCode, err: error }, 'an export was cut off');
  });
  return stream;
}

/** Each holds a page in memory, and keeps querying the database. */
const EXPORTS_MAX = 8;
/** So that one caller leaves places to the others. */
const EXPORTS_PER_PRINCIPAL_MAX = 2;

/** The places of the exports that are under way at once. */
interface ExportPlaces {
  /**
   * Takes a place.
   * @returns a function that gives it back; called again, it does nothing.
   * @throws {LeaseError} `request.rate_limited` when all are taken, or all that one caller may have.
   */
  take(principal: string): () => void;
}

function createExportPlaces(): ExportPlaces {
  const takenBy = new Map<string, number>();
  let takenCount = 0;
  return {
    take(principal) {
      const own = takenBy.get(principal) ?? 0;
      if (own >= EXPORTS_PER_PRINCIPAL_MAX) {
        throw refused(`You already have ${String(own)} exports in progress.`);
      }
      if (takenCount >= EXPORTS_MAX) {
        throw refused(`${String(takenCount)} exports are in progress already.`);
      }
      takenBy.set(principal, own + 1);
      takenCount += 1;
      return once(() => {
        takenCount -= 1;
        const left = (takenBy.get(principal) ?? 0) - 1;
        if (left > 0) takenBy.set(principal, left);
        else takenBy.delete(principal);
      });
    },
  };
}

function refused(why: string): LeaseError {
  return new LeaseError('request.rate_limited', `${why} Try again when one has ended.`);
}
