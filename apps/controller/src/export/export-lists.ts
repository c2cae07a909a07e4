import {
  auditListInputSchema,
  environmentListInputSchema,
  eventListInputSchema,
  keyListInputSchema,
  leaseListInputSchema,
  reservationListInputSchema,
} from '@leasehold/api/contract';
import type { UnreachableDatacenter, appRouter } from '@leasehold/api';
import type { z } from 'zod';

/** The API as one caller may use it, without a wire in between. */
export type ApiCaller = ReturnType<typeof appRouter.createCaller>;

type Item = Readonly<Record<string, unknown>>;

/** One page of a list, and where the next one begins. */
export interface ExportPage {
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
  ...['phase', 'leaseId', 'fencingToken', 'holder'],
  ...['grantedAt', 'renewedAt', 'expiresAt', 'remainingMs', 'renewable'],
  ...['ladder.renewAfterMs', 'ladder.softAfterMs', 'ladder.hardAfterMs', 'ladder.ttlMs'],
  ...['stopsBy', 'endReason', 'releasedAt', 'waiters', 'datacenter', 'asOf'],
];

const LEASE_COLUMNS = ['namespace', 'name', 'action', ...GRANT_COLUMNS, 'comment', 'metadata'];

const EXPORT_LISTS: Readonly<Record<string, ExportList>> = {
  keys: {
    inputSchema: keyListInputSchema,
    readPage: (api, input) => api.keys.list(input),
    columns: [
      ...['namespace', 'name', 'tag', ...GRANT_COLUMNS],
      ...['droneId', 'backendId', 'backendStatus'],
      ...['backendEnd.reason', 'backendEnd.exitCode', 'backendEnd.hasFailed'],
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
      ...['key', 'reservationId', 'datacenter', 'state', 'chain', 'movedTo'],
      ...['activatedAt', 'activatedBy', 'movedAt', 'movedBy', 'moveReason'],
    ],
  },
  events: {
    inputSchema: eventListInputSchema,
    readPage: (api, input) => api.events.list(input),
    columns: [
      ...['id', 'at', 'face', 'namespace', 'name', 'leaseId', 'fencingToken', 'kind'],
      ...['actor', 'reason', 'detail', 'datacenter'],
    ],
    defaults: { direction: 'asc' },
  },
  audit: {
    inputSchema: auditListInputSchema,
    readPage: (api, input) => api.audit.list(input),
    columns: [
      ...['id', 'at', 'actor', 'role', 'action', 'resource'],
      ...['reason', 'source', 'detail'],
    ],
  },
};

/** The list with this name in an address; undefined for any other name. */
export function exportListOf(name: string): ExportList | undefined {
  return Object.hasOwn(EXPORT_LISTS, name) ? EXPORT_LISTS[name] : undefined;
}
