import { traceField } from '@leasehold/service-kit/tracing';
import type { TerminationReason } from '../../kernel/fleet/backend-state.ts';
import { LeaseError } from '../../kernel/errors/index.ts';
import type { RevokeOutcome } from '../../kernel/lease/outcomes.ts';
import type { Resource } from '../../kernel/resource/resource.ts';
import type { Store } from '../../postgres/open-store.ts';
import { type Fragment, fragment, type Sql } from '../../postgres/sql.ts';
import { type RevokeRequest, type RevokedGrant, abandon, revoke } from '../../grants/index.ts';

/** A backend that was told to stop, for a hint to its drone. */
export interface StoppingBackend {
  readonly backendId: string;
  readonly droneId: string;
}

export interface RevokedKey {
  readonly outcome: RevokeOutcome;
  /** Epoch milliseconds of the database; null when nothing was revoked. */
  readonly stopsBy: number | null;
  /** Null when nothing was revoked. */
  readonly resource: Resource | null;
  readonly stopping: StoppingBackend | null;
}

/**
 * Revokes a key and tells its drone to stop the backend, in one transaction: softly for a graceful
 * revoke, by SIGKILL for a forced one. A spawn that was never acknowledged is withdrawn by force.
 */
export async function revokeKey(store: Store, request: RevokeRequest): Promise<RevokedKey> {
  return store.general.$transaction(async (tx) => {
    const revoked = (await revoke(tx, 'key', [request])).get(request.leaseId);
    if (revoked === undefined) return abandonOrGone(tx, request);
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
    return {
      outcome: isForced ? 'revoked' : 'revoking',
      stopsBy: revoked.stopsBy,
      resource: keyOf(revoked),
      stopping,
    };
  });
}

/** Nothing is in force: with `abandon`, a key that is still held back after an end by force is freed. */
async function abandonOrGone(tx: Sql<'general'>, request: RevokeRequest): Promise<RevokedKey> {
  const letGo =
    request.mode === 'force' && request.abandon ? await abandon(tx, request) : undefined;
  return {
    outcome: letGo === undefined ? 'gone' : 'revoked',
    stopsBy: letGo?.stopsBy ?? null,
    resource: letGo === undefined ? null : keyOf(letGo),
    stopping: null,
  };
}

function keyOf({ namespace, name }: RevokedGrant): Resource {
  return { face: 'key', namespace, name };
}

/** Tells a backend's drone to stop it. @throws {LeaseError} `backend.not_found`. */
export async function terminateBackend(
  store: Store,
  request: {
    readonly backendId: string;
    readonly mode: 'soft' | 'hard';
    readonly namespaces: readonly string[] | null;
  },
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
