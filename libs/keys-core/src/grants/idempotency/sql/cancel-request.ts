/** Giving up a request by its idempotency key, on the leases and environments faces. */
import {
  assertSameFace,
  givenUp,
  type RecordedRequest,
} from '../../../kernel/lease/recorded-request.ts';
import { type Face, type Resource, leaseTopic } from '../../../kernel/resource/resource.ts';
import type { Store } from '../../../postgres/open-store.ts';
import { releaseAlone, wakeWaiters } from '../../transitions/releasing.ts';
import type { RequestKey } from './requests.ts';
import { C, type Sql } from '../../../postgres/sql.ts';
import type { Released, ReleaseRequest } from '../../sql/parts/release-rows.ts';

export type CancelOutcome = 'cancelled' | 'released' | 'not_found';

/** Who gives up, and what is recorded of a grant that is released for it. */
interface GivingUp extends RequestKey, Pick<ReleaseRequest, 'actor' | 'result' | 'detail'> {
  /** Gives up nothing when the request was repeated and its caller was told of the grant. */
  readonly onlyUnrepeated?: boolean;
}

/**
 * Gives up the request with this key: takes its ticket away, or releases the grant that it became.
 * Whatever the outcome, the key is never answered with a grant again. This also holds for a key that
 * was never used: its request may arrive later.
 *
 * Locks the request, then its ticket, then its grant's row. A grant under way has locked the ticket:
 * this waits for it, and finds the grant.
 * @throws {LeaseError} `request.idempotency_reused` when the key was used on another face.
 */
export async function cancelRequest(
  store: Store,
  face: Face,
  request: GivingUp,
): Promise<CancelOutcome> {
  const left: { released?: Released | undefined; line?: Resource | undefined } = {};
  const outcome = await store.general.$transaction(async (tx): Promise<CancelOutcome> => {
    const leaseId = await lockRequest(tx, face, request);
    if (leaseId === undefined) return 'not_found';
    left.line = await takeTicket(tx, leaseId);
    // After the ticket, so that a grant that was under way is seen.
    const wasOpen = await barRequest(tx, face, { ...request, leaseId });
    const end = await releaseGrant(tx, face, { ...request, leaseId });
    left.released = end?.released;
    if (end?.outcome === 'released') return 'released';
    return wasOpen || left.line !== undefined ? 'cancelled' : 'not_found';
  });
  if (left.released !== undefined) {
    store.observer.release(face, 'released');
    wakeWaiters(store, left.released);
  }
  // The next caller in line may be first now.
  if (left.line !== undefined) store.hints.notify(leaseTopic(left.line));
  return outcome;
}

/**
 * Locks the record of a key, or records a key that is new as given up.
 * @returns the id of the ticket or the grant that is to be given up, if any.
 */
async function lockRequest(tx: Sql<'general'>, face: Face, key: GivingUp) {
  const barred = await tx.$queryRaw<{ principal: string }[]>`
    insert into lease_request (principal, idempotency_key, answer)
    values (${key.principal}, ${key.idempotencyKey}, ${JSON.stringify(givenUp(face))}::jsonb)
    on conflict (principal, idempotency_key) do nothing
    returning principal`;
  if (barred.length > 0) return undefined;
  const [record] = await tx.$queryRaw<(RecordedRequest & { isRepeated: boolean })[]>`
    select lease_id as "leaseId", answer, resource, fingerprint,
      grant_repeated_at is not null as "isRepeated"
    from lease_request
    where principal = ${key.principal} ${C} and idempotency_key = ${key.idempotencyKey} ${C}
    for update`;
  if (record === undefined) return undefined;
  assertSameFace(record, face);
  if (key.onlyUnrepeated === true && record.isRepeated) return undefined;
  return record.leaseId ?? undefined;
}

async function takeTicket(tx: Sql<'general'>, leaseId: string): Promise<Resource | undefined> {
  const [line] = await tx.$queryRaw<Resource[]>`
    delete from lease_waiter where ticket_id = ${leaseId}::uuid returning face, namespace, name`;
  return line;
}

/**
 * From now on, answers a request that was granted or waits as given up; a refusal stays the answer.
 * @returns whether the request had neither a grant nor an answer.
 */
async function barRequest(
  tx: Sql<'general'>,
  face: Face,
  request: RequestKey & { readonly leaseId: string },
): Promise<boolean> {
  const rows = await tx.$queryRaw<{ wasOpen: boolean }[]>`
    update lease_request q set answer = ${JSON.stringify(givenUp(face))}::jsonb
    where q.principal = ${request.principal} ${C}
      and q.idempotency_key = ${request.idempotencyKey} ${C}
      and q.answer is null
    returning not exists (
      select from lease_event e
      where e.lease_id = ${request.leaseId}::uuid and e.kind in ('granted', 'taken_over')
    ) as "wasOpen"`;
  return rows[0]?.wasOpen === true;
}

/** Undefined: it was never granted, or another grant has come after it. */
async function releaseGrant(
  tx: Sql<'general'>,
  face: Face,
  request: GivingUp & { readonly leaseId: string },
): Promise<Awaited<ReturnType<typeof releaseAlone>> | undefined> {
  const [row] = await tx.$queryRaw<{ token: string }[]>`
    select fencing_token::text as token from lease
    where lease_id = ${request.leaseId}::uuid and face = ${face}
      and principal = ${request.principal} ${C}`;
  return row === undefined
    ? undefined
    : releaseAlone(tx, face, { ...request, fencingToken: row.token });
}
