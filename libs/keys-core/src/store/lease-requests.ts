/** Records of idempotency keys on the leases and environments faces: one key, one attempt, one answer. */
import type { Face, Resource } from '../kernel/resource.ts';
import type { Ladder } from '../kernel/ladder.ts';
import type { RecordedRequest } from '../kernel/outcomes.ts';
import { releaseAlone, wakeWaiters } from './releasing.ts';
import { leaseTopic } from './lease-topic.ts';
import type { Store } from './open-store.ts';
import { C, type Sql } from './rows.ts';
import type { Released } from './statements/release.ts';

interface RequestKey {
  readonly principal: string;
  readonly idempotencyKey: string;
}

/** What is recorded of a key, or undefined when it has not been used. */
export async function readRequest(
  sql: Sql,
  { principal, idempotencyKey }: RequestKey,
): Promise<RecordedRequest | undefined> {
  const [row] = await sql.$queryRaw<RecordedRequest[]>`
    select lease_id as "leaseId", answer, resource from lease_request
    where principal = ${principal} ${C} and idempotency_key = ${idempotencyKey} ${C}`;
  return row;
}

/**
 * Records refusals, each under its key; the first record of a key stays.
 * @returns the keys (as `principal\0key`) that were recorded now.
 */
export async function recordRefusals(
  sql: Sql,
  refusals: readonly (RequestKey & {
    readonly leaseId: string;
    readonly answer: unknown;
    readonly resource: string;
  })[],
): Promise<Set<string>> {
  const rows = await sql.$queryRaw<RequestKey[]>`
    insert into lease_request (principal, idempotency_key, lease_id, answer, resource)
    select r.principal, r.idempotency_key, r.lease_id, r.answer::jsonb, r.resource
    from unnest(
      ${refusals.map((refusal) => refusal.principal)}::text[],
      ${refusals.map((refusal) => refusal.idempotencyKey)}::text[],
      ${refusals.map((refusal) => refusal.leaseId)}::uuid[],
      ${refusals.map((refusal) => JSON.stringify(refusal.answer))}::text[],
      ${refusals.map((refusal) => refusal.resource)}::text[]
    ) as r (principal, idempotency_key, lease_id, answer, resource)
    order by r.principal, r.idempotency_key
    on conflict (principal, idempotency_key) do nothing
    returning principal, idempotency_key as "idempotencyKey"`;
  return new Set(rows.map((row) => `${row.principal}\0${row.idempotencyKey}`));
}

/** A grant as it was given, whatever has become of it. */
export interface PastGrant extends Resource {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly holder: string;
  readonly principal: string;
  readonly ladder: Ladder;
  /** 0 when it has ended. */
  readonly remainingMs: number;
  /** When it was read, as epoch milliseconds of the database. */
  readonly asOf: number;
}

/**
 * The grant with this id, or undefined when there was none. One that its row no longer carries is
 * told from its event: it has ended, and no deadline of it lies ahead.
 */
export async function readGrant(sql: Sql, leaseId: string): Promise<PastGrant | undefined> {
  const [row] = await sql.$queryRaw<(Resource & Ladder & Omit<PastGrant, 'ladder'>)[]>`
    select e.face, e.namespace, e.name, e.lease_id as "leaseId",
      e.fencing_token::text as "fencingToken",
      e.detail ->> 'holder' as holder, e.detail ->> 'principal' as principal,
      coalesce(l.ttl_ms, 1) as "ttlMs", coalesce(l.renew_after_ms, 0) as "renewAfterMs",
      coalesce(l.soft_after_ms, 0) as "softAfterMs", coalesce(l.hard_after_ms, 0) as "hardAfterMs",
      case
        when l.end_reason is null and l.released_at is null
          then greatest(0, date_part('epoch', l.expires_at - clock_timestamp()) * 1000)
        else 0
      end as "remainingMs",
      date_part('epoch', clock_timestamp()) * 1000 as "asOf"
    from lease_event e
    left join lease l on l.lease_id = e.lease_id
    where e.lease_id = ${leaseId}::uuid and e.kind in ('granted', 'taken_over')
    order by e.id
    limit 1`;
  if (row === undefined) return undefined;
  const { ttlMs, renewAfterMs, softAfterMs, hardAfterMs, ...grant } = row;
  return {
    ...grant,
    ladder: { ttlMs, renewAfterMs, softAfterMs, hardAfterMs },
  };
}

export type CancelOutcome = 'cancelled' | 'released' | 'not_found';

/** What is recorded of a request that was given up. */
export const CANCELLED = { outcome: 'cancelled' } as const;

const TRANSACTION = { maxWait: 5_000, timeout: 5_000 };

/**
 * Gives up the request with this key: takes its ticket away, or releases the grant that it became. A
 * key that nobody has used yet is barred: a request that arrives later is never granted.
 *
 * Locks the request, then its ticket, then its grant's row. A grant under way has locked the ticket:
 * this waits for it, and finds the grant.
 */
export async function cancelRequest(
  store: Store,
  face: Face,
  key: RequestKey & { readonly actor: string },
): Promise<CancelOutcome> {
  const left: { released?: Released; line?: Resource } = {};
  const outcome = await store.prisma.$transaction(async (tx): Promise<CancelOutcome> => {
    const leaseId = await barRequest(tx, face, key);
    if (leaseId === undefined) return 'not_found';
    const line = await takeTicket(tx, leaseId);
    if (line !== undefined) left.line = line;
    const isBarred = await barUngranted(tx, key, leaseId);
    if (line !== undefined || isBarred) return 'cancelled';
    const token = await readToken(tx, face, leaseId, key.principal);
    if (token === undefined) return 'not_found';
    const { outcome: ended, released } = await releaseAlone(tx, face, {
      leaseId,
      fencingToken: token,
      principal: key.principal,
      actor: key.actor,
      result: 'ok',
      detail: 'given up',
    });
    if (ended !== 'released') return 'not_found';
    if (released !== undefined) left.released = released;
    return 'released';
  }, TRANSACTION);
  if (left.released !== undefined) {
    store.observer.release(face, 'released');
    wakeWaiters(store, left.released);
  }
  // Who stood behind may be first now.
  if (left.line !== undefined) store.hints.notify(leaseTopic(left.line));
  return outcome;
}

/** Bars a key that is new, or locks its record. @returns the lease id that it stands for, if any. */
async function barRequest(tx: Sql, face: Face, key: RequestKey): Promise<string | undefined> {
  const barred = await tx.$queryRaw<{ principal: string }[]>`
    insert into lease_request (principal, idempotency_key, answer)
    values (${key.principal}, ${key.idempotencyKey}, ${JSON.stringify(CANCELLED)}::jsonb)
    on conflict (principal, idempotency_key) do nothing
    returning principal`;
  if (barred.length > 0) return undefined;
  const [row] = await tx.$queryRaw<{ leaseId: string | null }[]>`
    select lease_id as "leaseId" from lease_request
    where principal = ${key.principal} ${C} and idempotency_key = ${key.idempotencyKey} ${C}
      and starts_with(resource, ${face}::text || chr(31))
    for update`;
  return row?.leaseId ?? undefined;
}

async function takeTicket(tx: Sql, leaseId: string): Promise<Resource | undefined> {
  const [line] = await tx.$queryRaw<Resource[]>`
    delete from lease_waiter where ticket_id = ${leaseId}::uuid returning face, namespace, name`;
  return line;
}

/**
 * Answers a request that was not granted as given up, for good. After {@link takeTicket}, so that a
 * grant that was under way is seen. @returns whether it did.
 */
async function barUngranted(tx: Sql, key: RequestKey, leaseId: string): Promise<boolean> {
  const rows = await tx.$queryRaw<RequestKey[]>`
    update lease_request q set answer = ${JSON.stringify(CANCELLED)}::jsonb
    where q.principal = ${key.principal} ${C} and q.idempotency_key = ${key.idempotencyKey} ${C}
      and q.answer is null
      and not exists (
        select from lease_event e
        where e.lease_id = ${leaseId}::uuid and e.kind in ('granted', 'taken_over')
      )
    returning q.principal`;
  return rows.length > 0;
}

async function readToken(
  tx: Sql,
  face: Face,
  leaseId: string,
  principal: string,
): Promise<string | undefined> {
  const [row] = await tx.$queryRaw<{ token: string }[]>`
    select fencing_token::text as token from lease
    where lease_id = ${leaseId}::uuid and face = ${face} and principal = ${principal} ${C}`;
  return row?.token;
}
