/** The numbers of permits that services declare, and that operators set. */
import { LeaseError } from '../kernel/errors.ts';
import type { Caller } from '../kernel/face-types.ts';
import type { Permits } from '../kernel/pool.ts';
import { namespaceText, poolTopic } from '../kernel/resource.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import type { Store } from '../postgres/open-store.ts';
import { declarePermits, type PermitsRequest, type PermitsRow, setPermits } from './sql/permits.ts';

/** What an operator's number is recorded with where no service has declared its leases yet. */
const TTL_MS = 30_000;

/**
 * Records the numbers that a service declares with its leases. The same token may change its own; a
 * number that an operator has set stays in force, whatever is declared.
 * @throws {LeaseError} `lease.permits_differ` when others are in force, or too many permits are in use for a total to come
 * or go; `grant.contended`.
 */
export async function declareAllPermits(
  store: Store,
  requests: readonly PermitsRequest[],
  caller: Caller,
): Promise<void> {
  if (requests.length === 0) return;
  const rows = await unlessLocked(() =>
    store.general.$transaction((tx) => declarePermits(tx, caller, requests)),
  );
  const inForce = new Map(rows.map((row) => [row.namespace, row]));
  for (const { namespace, permits } of requests) {
    const row = inForce.get(namespace);
    if (row?.principal == null || isSame(row, permits)) continue;
    throw differ(namespace, row, permits);
  }
  // There may be more than before, and those who wait may have their turn.
  store.hints.notify(...requests.map(poolTopic));
}

/**
 * Sets the numbers of a namespace, whatever services declare.
 * @throws {LeaseError} `lease.permits_differ` when too many permits are in use for a total to come or go;
 * `grant.contended`.
 */
export async function setAllPermits(
  store: Store,
  request: PermitsRequest,
  caller: Caller,
): Promise<PermitsRow> {
  return unlessLocked(() =>
    store.general.$transaction((tx) => setPermits(tx, caller, { request, ttlMs: TTL_MS })),
  );
}

/** Fenced work may keep a permit locked that a total would move. @throws {LeaseError} `grant.contended`. */
async function unlessLocked<Result>(change: () => Promise<Result>): Promise<Result> {
  try {
    return await change();
  } catch (error) {
    if (databaseFailureOf(error) !== 'contention') throw error;
    throw new LeaseError('grant.contended', undefined, { cause: error });
  }
}

function isSame(one: Permits, other: Permits): boolean {
  return one.perKey === other.perKey && one.total === other.total;
}

function differ(namespace: string, inForce: PermitsRow, asked: Permits): LeaseError {
  const { perKey, total, by: declaredBy } = inForce;
  const declared = { perKey, total };
  return new LeaseError(
    'lease.permits_differ',
    `For the leases ${namespaceText(namespace)}, ${declaredBy} has declared ${permitsText(declared)}, and not ${permitsText(asked)}.`,
    { details: { namespace, declared, asked, declaredBy } },
  );
}

/** `3 permits for each key, 10 together`. */
function permitsText({ perKey, total }: Permits): string {
  const each = `${String(perKey)} ${perKey === 1 ? 'permit' : 'permits'} for each key`;
  return total === null ? each : `${each}, ${String(total)} together`;
}
