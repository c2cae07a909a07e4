import type { Named } from '../../kernel/resource/resource.ts';
import type { GrantRef } from '../../kernel/lease/outcomes.ts';
import type { BackendReport } from '../key-types.ts';
import { hasFailed, sayEnd, sayLived } from '../../kernel/fleet/backend-end.ts';
import { statusRank, type BackendStatus } from '../../kernel/fleet/backend-state.ts';
import { LeaseError } from '../../kernel/errors/index.ts';
import { releaseAlone } from '../../grants/index.ts';
import type { Store } from '../../postgres/open-store.ts';
import { fragment, type Sql } from '../../postgres/sql.ts';
import { noteEnd } from './key-failures.ts';

interface BackendRow extends GrantRef, Named {
  readonly status: BackendStatus;
  /** Whether it had an address. */
  readonly wasReady: boolean;
  /** From the start of its program until now; null if that was never started. */
  readonly livedMs: number | null;
  /** Whether it has been ready for a minute. */
  readonly hasLasted: boolean;
}

export interface ReportResult {
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
 * Records a report, in one transaction, locks in the order lease, backend, action.
 *
 * `terminated` releases the backend's own grant, by lease id and token: a late report cannot free
 * a newer grant. States only move forward; a report that does not move the backend is kept as
 * history. The answer is `kill` when a drone reports a backend as alive that has ended for the
 * database.
 *
 * @throws {LeaseError} `session.superseded`, `backend.not_found`.
 */
export async function report(store: Store, said: BackendReport): Promise<ReportResult> {
  return store.vital.$transaction(async (tx) => {
    const backend = await readBackend(tx, said);
    if (backend.status === 'terminated' && said.status !== 'terminated') {
      return { ...NOTHING, outcome: 'kill' };
    }
    if (said.refused === true && backend.status !== 'scheduled') {
      return { ...NOTHING, outcome: 'ignored' };
    }
    const end = said.status === 'terminated' ? await freeKey(tx, said, backend) : undefined;
    const isMoved = await moveBackend(tx, said, backend);
    return {
      outcome: isMoved ? 'recorded' : 'ignored',
      freed: end === undefined ? null : { namespace: backend.namespace, name: backend.name },
      isOverstay: isMoved && (end === 'expired' || end === 'superseded'),
      hasFailed: isMoved && isFailure(said, backend),
    };
  });
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
      b.namespace, b.name,
      d.session = ${said.session}::bigint and d.clock_id = ${said.clockId}::uuid as "isNewest"
    from backend b
    join drone d on d.id = b.drone_id
    where b.id = ${said.backendId} and b.drone_id = ${said.droneId}`;
  if (row === undefined) throw new LeaseError('backend.not_found');
  if (!row.isNewest) throw new LeaseError('session.superseded');
  return row;
}

/** Releases the backend's grant, with why it ended; or frees a key that was held back after it was ended by force. */
async function freeKey(tx: Sql<'vital'>, said: BackendReport, backend: BackendRow) {
  const end = { reason: said.reason ?? null, exitCode: said.exitCode ?? null };
  const { outcome } = await releaseAlone(tx, 'key', {
    leaseId: backend.leaseId,
    fencingToken: backend.fencingToken,
    principal: said.droneId,
    actor: `drone:${said.droneId}`,
    result: hasFailed(end, backend.wasReady) ? 'failed' : 'ok',
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

/** Whether a report says that the program of a backend has failed. */
function isFailure(said: BackendReport, { wasReady }: BackendRow): boolean {
  const { status, reason = null, exitCode = null } = said;
  return status === 'terminated' && hasFailed({ reason, exitCode }, wasReady);
}

async function moveBackend(
  tx: Sql<'vital'>,
  said: BackendReport,
  backend: BackendRow,
): Promise<boolean> {
  const rank = statusRank(said.status);
  const { reason = null, address = null, exitCode = null, detail = null } = said;
  const { image = null, output = null } = said;
  const noted =
    said.status === 'terminated'
      ? fragment`,${noteEnd(said.backendId, { ...{ reason, exitCode }, hasFailed: isFailure(said, backend), lasted: backend.hasLasted })}`
      : fragment``;
  const rows = await tx.$queryRaw<{ isMoved: boolean }[]>`
    with moved as (
      update backend
      set status = ${said.status}, status_rank = ${rank}, status_at = clock_timestamp(),
          reason = coalesce(reason, ${reason}),
          address = coalesce(${address}, address),
          exit_code = coalesce(${exitCode}::int, exit_code),
          image = coalesce(${image}, image),
          output = coalesce(${output}, output)
      where id = ${said.backendId} and status_rank < ${rank}
      returning id
    ),
    known as (
      select from backend_state
      where backend_id = ${said.backendId} and status = ${said.status}
        and reason is not distinct from ${reason}
    ),
    state as (
      insert into backend_state (backend_id, status, reason, address, exit_code, detail)
      select ${said.backendId}, ${said.status}, ${reason}, ${address},
        ${exitCode}::int, ${detail}
      where not exists (select from known)
    ),
    -- Any word of the drone about a backend is word that it has the spawn.
    acked as (
      update backend_action
      set acked_at = clock_timestamp()
      where backend_id = ${said.backendId} and kind = 'spawn'
        and acked_at is null and cancelled_at is null
    )${noted}
    select exists (select from moved) as "isMoved"`;
  return rows[0]?.isMoved ?? false;
}
