import { traceField } from '@leasehold/service-kit/tracing';
import {
  abandon,
  type RecordGrantAct,
  releaseAlone,
  revoke,
  type RevokeRequest,
} from '../../grants/index.ts';
import { LeaseError } from '../../kernel/errors.ts';
import {
  type BackendStatus,
  hasFailed,
  isStopping,
  sayEnd,
  sayLived,
  statusRank,
  type TerminationReason,
} from '../../kernel/backends.ts';
import type { GrantRef, RevokeOutcome } from '../../kernel/lease.ts';
import type { Named } from '../../kernel/resource.ts';
import type { ClockBelief } from '../../postgres/clock/clock-watch.ts';
import { expiryBelieved } from '../../postgres/clock/expiry.ts';
import type { Store } from '../../postgres/open-store.ts';
import type { RecordSql } from '../../postgres/records.ts';
import { type Fragment, fragment, NO_FRAGMENT, onlyRow, type Sql } from '../../postgres/sql.ts';
import type { BackendReport } from '../key-types.ts';
import { noteEnd } from './key-failures.ts';

/** A backend that was told to stop, for a hint to its drone. */
export interface StoppingBackend {
  readonly backendId: string;
  readonly droneId: string;
}

export interface RevokedKey {
  readonly outcome: RevokeOutcome;
  /** Epoch milliseconds of the database; null when nothing was revoked. */
  readonly stopsBy: number | null;
  readonly stopping: StoppingBackend | null;
}

/**
 * Revokes a key and tells its drone to stop the backend, in one transaction: softly for a graceful
 * revoke, by SIGKILL for a forced one. A spawn that was never acknowledged is withdrawn by force.
 * @param record called in the same transaction when something was revoked
 */
export async function revokeKey(
  store: Store,
  request: RevokeRequest,
  record: RecordGrantAct | undefined,
): Promise<RevokedKey> {
  return store.general.$transaction(async (tx) => {
    const revoked = (await revoke(tx, 'key', [request])).get(request.leaseId);
    const changed = revoked ?? (await letGoOf(tx, request));
    if (changed === undefined) return { outcome: 'gone', stopsBy: null, stopping: null };
    await record?.(tx, changed);
    const { stopsBy } = changed;
    if (revoked === undefined) return { outcome: 'revoked', stopsBy, stopping: null };
    const isForced = request.mode === 'force';
    const [stopping = null] = await queueTerminate(
      tx,
      { leaseId: request.leaseId },
      {
        mode: isForced ? 'hard' : 'soft',
        reason: 'revoked',
        withdrawSpawn: isForced,
      },
    );
    return { outcome: isForced ? 'revoked' : 'revoking', stopsBy, stopping };
  });
}

/** Nothing is in force: with `abandon`, a key that is still held back after an end by force is freed. */
async function letGoOf(tx: Sql<'general'>, request: RevokeRequest) {
  return request.mode === 'force' && request.abandon ? abandon(tx, request) : undefined;
}

/**
 * Tells a backend's drone to stop it. @returns null if it had ended; otherwise `record` is called in the same transaction.
 * @throws {LeaseError} `backend.not_found`.
 */
export async function terminateBackend(
  store: Store,
  request: {
    readonly backendId: string;
    readonly mode: 'soft' | 'hard';
    readonly namespaces: readonly string[] | null;
  },
  record: (tx: RecordSql) => Promise<void>,
): Promise<StoppingBackend | null> {
  return store.general.$transaction(async (tx) => {
    const known = await tx.$queryRaw<{ id: string }[]>`
      select b.id from backend b
      where b.id = ${request.backendId}
        and lease_is_within(b.namespace, ${
          request.namespaces === null ? null : JSON.stringify(request.namespaces)
        }::jsonb)`;
    if (known.length === 0) throw new LeaseError('backend.not_found');
    const [stopping = null] = await queueTerminate(
      tx,
      { backendId: request.backendId },
      {
        mode: request.mode,
        reason: 'external',
        withdrawSpawn: false,
      },
    );
    if (stopping !== null) await record(tx);
    return stopping;
  });
}

/** Tells a drone to stop all of its backends softly. @returns the ids of those that have not ended. */
export async function terminateAllOf(tx: Sql<'general'>, droneId: string): Promise<string[]> {
  const how = { mode: 'soft', reason: 'external', withdrawSpawn: false } as const;
  const stopping = await queueTerminate(tx, { droneId }, how);
  return stopping.map(({ backendId }) => backendId);
}

/**
 * Puts terminate actions into the outbox, for each backend that is not over unless the same one is already
 * waiting there. @returns the backends.
 */
async function queueTerminate(
  tx: Sql<'general'>,
  which:
    { readonly leaseId: string } | { readonly backendId: string } | { readonly droneId: string },
  how: {
    readonly mode: 'soft' | 'hard';
    readonly reason: TerminationReason;
    readonly withdrawSpawn: boolean;
  },
): Promise<StoppingBackend[]> {
  const of = wanted(which);
  return tx.$queryRaw<StoppingBackend[]>`
    with target as materialized (
      select b.id, b.drone_id, d.clock_id
      from backend b
      join drone d on d.id = b.drone_id
      where ${of} and b.status_rank < 7
    ),
    withdrawn as (
      update backend_action a
      set cancelled_at = clock_timestamp()
      from target t
      where a.backend_id = t.id and a.kind = 'spawn' and a.acked_at is null
        and a.cancelled_at is null and ${how.withdrawSpawn}
    ),
    queued as (
      insert into backend_action (backend_id, drone_id, kind, payload)
      select t.id, t.drone_id, 'terminate', jsonb_build_object(
        'kind', 'terminate', 'clockId', t.clock_id, 'backendId', t.id,
        'mode', ${how.mode}::text, 'reason', ${how.reason}::text
      ) || ${JSON.stringify(traceField())}::jsonb
      from target t
      where not exists (
        select from backend_action a
        where a.backend_id = t.id and a.kind = 'terminate' and a.acked_at is null
          and a.cancelled_at is null and a.payload ->> 'mode' = ${how.mode}
      )
    )
    select t.id as "backendId", t.drone_id as "droneId" from target t`;
}

/** Indexes: `backend_lease_id_key`, the primary key, `backend_drone_id_status_rank_idx`. */
function wanted(which: Parameters<typeof queueTerminate>[1]): Fragment {
  if ('leaseId' in which) return fragment`b.lease_id = ${which.leaseId}::uuid`;
  if ('backendId' in which) return fragment`b.id = ${which.backendId} collate "C"`;
  return fragment`b.drone_id = ${which.droneId} collate "C"`;
}

interface BackendRow extends GrantRef, Named {
  readonly status: BackendStatus;
  /** Whether it had an address. */
  readonly wasReady: boolean;
  /** From the start of its program until now; null if that was never started. */
  readonly livedMs: number | null;
  /** Whether it has been ready for a minute. */
  readonly hasLasted: boolean;
  /** Whether it was found idle, and stopped for that. */
  readonly isFoundIdle: boolean;
  /** Whether it was given to another warden than the one that reports. */
  readonly isOfOtherClock: boolean;
}

interface ReportResult {
  readonly outcome: 'recorded' | 'ignored' | 'kill';
  /** The key that the report freed, for a hint. */
  readonly freed: Named | null;
  /** The backend outlived its key: a defect. */
  readonly isOverstay: boolean;
  /** Its program has failed. */
  readonly hasFailed: boolean;
}

const NOTHING = { freed: null, isOverstay: false, hasFailed: false };

/**
 * Records a report: of a backend that starts in one statement, of one that ends in one transaction, which locks in the
 * order lease, backend, action.
 *
 * `terminated` releases the backend's own grant, by lease id and token: a late report cannot free
 * a newer grant. States only move forward; a report that does not move the backend is kept as
 * history. The answer is `kill` when a drone reports a backend as alive that has ended for the
 * database. What a drone says of a backend of an earlier warden is ignored: an agent with the same id on
 * another machine knows of none, and it may still run where it was started. Its key runs out.
 *
 * @throws {LeaseError} `session.superseded`, `backend.not_found`.
 */
export async function report(store: Store, reported: BackendReport): Promise<ReportResult> {
  const isEnding = isStopping(reported.status) || reported.refused === true;
  return isEnding ? reportEnding(store, reported) : reportStart(store.vital, reported);
}

/** Callers wait for these: it is one round trip. */
async function reportStart(sql: Sql<'vital'>, said: BackendReport): Promise<ReportResult> {
  const [row] = await sql.$queryRaw<{ isNewest: boolean; isOver: boolean; isMoved: boolean }[]>`
    with known as materialized (
      select d.session = ${said.session}::bigint and d.clock_id = ${said.clockId}::uuid as is_newest,
        b.clock_id = ${said.clockId}::uuid as is_own, b.status = 'terminated' as is_over
      from backend b
      join drone d on d.id = b.drone_id
      where b.id = ${said.backendId} and b.drone_id = ${said.droneId}
    ),
    ${movesOf(said, fragment`(select k.is_newest and k.is_own and not k.is_over from known k)`)}
    select k.is_newest as "isNewest", k.is_over as "isOver", exists (select from moved) as "isMoved"
    from known k`;
  if (row === undefined) throw new LeaseError('backend.not_found');
  if (!row.isNewest) throw new LeaseError('session.superseded');
  if (row.isOver) return { ...NOTHING, outcome: 'kill' };
  return { ...NOTHING, outcome: row.isMoved ? 'recorded' : 'ignored' };
}

async function reportEnding(store: Store, reported: BackendReport): Promise<ReportResult> {
  return store.vital.$transaction(async (tx) => {
    const backend = await readBackend(tx, reported);
    const said = withOwnReason(reported, backend);
    if (backend.status === 'terminated' && said.status !== 'terminated') {
      return { ...NOTHING, outcome: 'kill' };
    }
    if (await mayRunElsewhere(tx, backend)) return { ...NOTHING, outcome: 'ignored' };
    if (said.refused === true && backend.status !== 'scheduled') {
      return { ...NOTHING, outcome: 'ignored' };
    }
    const end = said.status === 'terminated' ? await freeKey(tx, said, backend) : undefined;
    const { isMoved, isNew } = await moveBackend(tx, said, backend);
    return {
      outcome: isMoved ? 'recorded' : 'ignored',
      freed: end === undefined ? null : { namespace: backend.namespace, name: backend.name },
      // Also of one that was recorded as lost before its drone could report it.
      isOverstay: isNew && said.hasOutlivedKey === true,
      hasFailed: isMoved && isFailure(said, backend),
    };
  });
}

/**
 * A drone is told that an idle stop is a stop from outside, and reports it as that, and what it has refused as a
 * failure: controllers of the version before would refuse a report with another reason, again and again.
 */
function withOwnReason(reported: BackendReport, { isFoundIdle }: BackendRow): BackendReport {
  if (reported.refused === true) return { ...reported, reason: 'refused' };
  return isFoundIdle && reported.reason === 'external' ? { ...reported, reason: 'idle' } : reported;
}

/** Reads the backend and checks that the report comes from its drone's newest session. */
async function readBackend(tx: Sql<'vital'>, said: BackendReport): Promise<BackendRow> {
  const [row] = await tx.$queryRaw<(BackendRow & { isNewest: boolean })[]>`
    select
      b.lease_id as "leaseId", b.fencing_token::text as "fencingToken", b.status,
      b.address is not null as "wasReady",
      (
        select round(extract(epoch from clock_timestamp() - s.at) * 1000)::float8
        from backend_state s
        where s.backend_id = b.id and s.status = 'waiting'
        order by s.id limit 1
      ) as "livedMs",
      b.status = 'ready' and b.status_at < clock_timestamp() - interval '1 minute' as "hasLasted",
      b.stop_asked_at is not null as "isFoundIdle", b.namespace, b.name,
      b.clock_id <> ${said.clockId}::uuid as "isOfOtherClock",
      d.session = ${said.session}::bigint and d.clock_id = ${said.clockId}::uuid as "isNewest"
    from backend b
    join drone d on d.id = b.drone_id
    where b.id = ${said.backendId} and b.drone_id = ${said.droneId}`;
  if (row === undefined) throw new LeaseError('backend.not_found');
  if (!row.isNewest) throw new LeaseError('session.superseded');
  return row;
}

/**
 * Whether another warden than the one that reports was to start it, and may have: nothing is started before its first
 * renewal, which must not come meanwhile.
 */
async function mayRunElsewhere(
  tx: Sql<'vital'>,
  { leaseId, status, isOfOtherClock }: BackendRow,
): Promise<boolean> {
  if (!isOfOtherClock || status !== 'scheduled') return isOfOtherClock;
  const [lease] = await tx.$queryRaw<{ isRenewed: boolean }[]>`
    -- Each was rounded for itself.
    select l.renewed_at > l.granted_at + interval '1 millisecond' as "isRenewed" from lease l
    where l.lease_id = ${leaseId}::uuid
    for no key update`;
  return lease?.isRenewed === true;
}

/** Releases the backend's grant, with why it ended; or frees a key that was held back after it was ended by force. */
async function freeKey(tx: Sql<'vital'>, said: BackendReport, backend: BackendRow) {
  // Why a start was refused is all that is known of it.
  const detail = said.refused === true ? said.detail : undefined;
  const end = { reason: said.reason ?? null, exitCode: said.exitCode ?? null, detail };
  const { outcome } = await releaseAlone(tx, 'key', {
    leaseId: backend.leaseId,
    fencingToken: backend.fencingToken,
    principal: said.droneId,
    actor: `drone:${said.droneId}`,
    result: isFailure(said, backend) ? 'failed' : 'ok',
    detail: end.reason === null ? null : `${sayEnd(end)}${sayLived(backend.livedMs)}`,
  });
  if (outcome === 'revoked') {
    await tx.$queryRaw`
      update lease set stops_by = null
      where lease_id = ${backend.leaseId}::uuid and end_reason = 'revoked'
      returning lease_id::text`;
  }
  return outcome;
}

/** Whether a report says that the program of a backend has failed. One that its drone refuses was never tried. */
function isFailure(said: BackendReport, { wasReady }: BackendRow): boolean {
  const { status, reason = null, exitCode = null } = said;
  return status === 'terminated' && hasFailed({ reason, exitCode }, wasReady);
}

async function moveBackend(
  tx: Sql<'vital'>,
  said: BackendReport,
  backend: BackendRow,
): Promise<{ isMoved: boolean; isNew: boolean }> {
  const { reason = null, exitCode = null } = said;
  const noted =
    said.status === 'terminated' && said.refused !== true
      ? fragment`,${noteEnd(said.backendId, { reason, exitCode, hasFailed: isFailure(said, backend), lasted: backend.hasLasted })}`
      : NO_FRAGMENT;
  const rows = await tx.$queryRaw<{ isMoved: boolean; isNew: boolean }[]>`
    with ${movesOf(said, fragment`true`)}${noted}${said.refused === true ? noteRefusal(said.droneId) : NO_FRAGMENT}
    select exists (select from moved) as "isMoved", exists (select from state) as "isNew"`;
  return onlyRow(rows);
}

/** A part of the statement that records a refusal: the drone is chosen last for the next starts. */
function noteRefusal(droneId: string): Fragment {
  return fragment`,
    refused as (
      update drone set refused_at = clock_timestamp()
      where id = ${droneId} collate "C" and exists (select from moved)
    )`;
}

/**
 * The parts of a statement that record what is said of a backend, if `mayBe`; only forward it is `moved`. `state` has
 * a row when it was not said before.
 */
function movesOf(said: BackendReport, mayBe: Fragment): Fragment {
  const rank = statusRank(said.status);
  const { reason = null, address = null, exitCode = null, detail = null } = said;
  const { image = null, output = null } = said;
  return fragment`
    moved as (
      update backend
      set status = ${said.status}, status_rank = ${rank}, status_at = clock_timestamp(),
          reason = coalesce(reason, ${reason}),
          address = coalesce(${address}, address),
          exit_code = coalesce(${exitCode}::int, exit_code),
          image = coalesce(${image}, image),
          output = coalesce(${output}, output)
      where id = ${said.backendId} and status_rank < ${rank} and ${mayBe}
      returning id
    ),
    repeated as (
      select from backend_state
      where backend_id = ${said.backendId} and status = ${said.status}
        and reason is not distinct from ${reason}
    ),
    state as (
      insert into backend_state (backend_id, status, reason, address, exit_code, detail)
      select ${said.backendId}, ${said.status}, ${reason}, ${address},
        ${exitCode}::int, ${detail}
      where not exists (select from repeated) and ${mayBe}
      returning id
    ),
    -- Any word of the drone about a backend is word that it has the spawn.
    acked as (
      update backend_action
      set acked_at = clock_timestamp()
      where backend_id = ${said.backendId} and kind = 'spawn'
        and acked_at is null and cancelled_at is null and ${mayBe}
    )`;
}

/**
 * Records the backends of grants that have run out as `terminated`, reason `drone_lost`, and
 * withdraws their spawn if it was never acknowledged. Called in the transaction that ends the
 * grants, or after it, and never before: only the drone's own report frees a key early.
 * @returns the ids of the backends that it moved.
 */
export async function recordLostBackends(
  tx: Sql<'general' | 'transitions'>,
  leaseIds: readonly string[],
): Promise<string[]> {
  if (leaseIds.length === 0) return [];
  const rows = await tx.$queryRaw<{ id: string }[]>`
    with locked as materialized (
      -- In the order of all that lock several backends.
      select b.id
      from backend b
      where b.lease_id = any (${leaseIds}::uuid[]) and b.status_rank < 7
      order by b.lease_id
      for no key update
    ),
    lost as (
      update backend b
      set status = 'terminated', status_rank = 7, reason = 'drone_lost', status_at = clock_timestamp()
      from locked k
      where b.id = k.id
      returning b.id
    ),
    state as (
      insert into backend_state (backend_id, status, reason)
      select x.id, 'terminated', 'drone_lost' from lost x order by x.id
    ),
    withdrawn as (
      update backend_action a
      set cancelled_at = clock_timestamp()
      from lost x
      where a.backend_id = x.id and a.kind = 'spawn' and a.acked_at is null and a.cancelled_at is null
    )
    select x.id from lost x`;
  return rows.map((row) => row.id);
}

/** How many backends one call of {@link recordOverdueBackends} reads. */
const BACKENDS_PER_CALL_MAX = 5_000;

/**
 * Records those backends as lost whose key was ended by something that could not record it: the
 * renewal that was refused as expired, or a forced revoke whose `stops_by` has passed. Their drone
 * should have reported them by itself; if it died instead, they would count as running forever.
 *
 * Goes through the backends in the order of their ids, a part in each call, so that a call costs the
 * same however many there are. Locks nothing but what it records: a grant that has been ended stays so.
 * @returns what it recorded, and after which id the next call continues.
 */
export async function recordOverdueBackends(
  sql: Sql<'general'>,
  afterId: string,
  belief: ClockBelief,
): Promise<{ lostBackendIds: string[]; nextAfterId: string }> {
  const rows = await sql.$queryRaw<{ leaseIds: string[]; lastId: string | null; count: number }[]>`
    with part as materialized (
      select b.id, b.lease_id, b.status_rank
      from backend b
      where b.id > ${afterId} collate "C"
      order by b.id
      limit ${BACKENDS_PER_CALL_MAX}
    )
    select
      (select max(p.id) from part p) as "lastId",
      (select count(*)::int from part) as count,
      array(
        select l.lease_id::text
        from part p
        join lease l on l.lease_id = p.lease_id
        where p.status_rank < 7 and l.end_reason is not null
          and greatest(l.expires_at, l.stops_by) <= clock_timestamp() and ${expiryBelieved(belief)}
      ) as "leaseIds"`;
  const { leaseIds, lastId, count } = onlyRow(rows);
  return {
    lostBackendIds: await recordLostBackends(sql, leaseIds),
    nextAfterId: count < BACKENDS_PER_CALL_MAX ? '' : (lastId ?? ''),
  };
}
