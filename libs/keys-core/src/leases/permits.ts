/** The numbers of permits that services declare, and that operators set. */
import { LeaseError } from '../kernel/errors.ts';
import type { Caller } from '../kernel/face-types.ts';
import type { Permits } from '../kernel/pool.ts';
import { namespaceText, poolTopic } from '../kernel/resource.ts';
import type { Store } from '../postgres/open-store.ts';
import { declarePermits, type PermitsRequest, type PermitsRow, setPermits } from './sql/permits.ts';

/** What an operator's number is recorded with where no service has declared its leases yet. */
const TTL_MS = 30_000;

/**
 * Records the numbers that a service declares with its leases. The same token may change its own; a
 * number that an operator has set stays in force, whatever is declared.
 * @throws {LeaseError} `lease.permits_differ` when others are in force.
 */
export async function declareAllPermits(
  store: Store,
  requests: readonly PermitsRequest[],
  caller: Caller,
): Promise<void> {
  if (requests.length === 0) return;
  const rows = await store.general.$transaction((tx) => declarePermits(tx, caller, requests));
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
 * @throws {LeaseError} `lease.permits_differ` when a total would come or go after a permit was asked for.
 */
export async function setAllPermits(
  store: Store,
  request: PermitsRequest,
  caller: Caller,
): Promise<PermitsRow> {
  const row = await store.general.$transaction((tx) =>
    setPermits(tx, caller, { request, ttlMs: TTL_MS }),
  );
  if (row === undefined) throw new LeaseError('grant.contended');
  if (!isSame(row, request.permits)) throw differ(request.namespace, row, request.permits);
  return row;
}

function isSame(one: Permits, other: Permits): boolean {
  return one.perKey === other.perKey && one.total === other.total;
}

function differ(namespace: string, inForce: PermitsRow, asked: Permits): LeaseError {
  const { perKey, total, by: declaredBy } = inForce;
  const declared = { perKey, total };
  const isTotalNew = (total === null) !== (asked.total === null);
  const why = isTotalNew
    ? ' Whether there is a total cannot change once a permit was asked for.'
    : '';
  return new LeaseError(
    'lease.permits_differ',
    `For the leases ${namespaceText(namespace)}, ${declaredBy} has declared ${permitsText(declared)}, and not ${permitsText(asked)}.${why}`,
    { details: { namespace, declared, asked, declaredBy } },
  );
}

/** `3 permits for each key, 10 together`. */
function permitsText({ perKey, total }: Permits): string {
  const each = `${String(perKey)} ${perKey === 1 ? 'permit' : 'permits'} for each key`;
  return total === null ? each : `${each}, ${String(total)} together`;
}
