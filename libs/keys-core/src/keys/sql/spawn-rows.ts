import { traceField } from '@leasehold/service-kit/tracing';
import { deadlinesFrom } from '../../kernel/lease/ladder.ts';
import type { GrantRequest } from '../../kernel/lease/outcomes.ts';
import { recordedResource } from '../../kernel/lease/recorded-request.ts';
import type { KeyedRequest } from '../../grants/index.ts';
import { type Fragment, fragment } from '../../postgres/sql.ts';

/** What a connect that starts a backend writes besides the grant. */
export interface SpawnPlan {
  readonly request: GrantRequest;
  readonly datacenter: string;
  readonly droneId: string;
  readonly backendId: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly lifetimeLimitSeconds: number | null;
  /** Written with the grant, so that a replay of the same request finds this one's answer. */
  readonly idempotent: KeyedRequest | null;
  /** Whether the key seemed never to have been held, or released by its last holder. */
  readonly isPlain: boolean;
}

/**
 * The part of a statement that writes a backend, its first state, the request's record and the spawn
 * action, for the one row of its `granted_here`: `namespace`, `name`, `tag`, `lease_id`, `fencing_token`,
 * the drone's `clock_id`, and `local_ms`, when the key was granted by that clock.
 *
 * The action's deadlines are in the drone's clock as of its newest heartbeat, which was received after
 * it was sent: they are early and never late. No process is started on them alone.
 */
export function spawnRows(plan: SpawnPlan): Fragment {
  const { request, idempotent, backendId, droneId, program, args, env } = plan;
  const offsets = deadlinesFrom(request.ladder, 0, request.ladder.ttlMs);
  const action = {
    kind: 'spawn',
    ...{ backendId, program, args, env },
    key: { name: request.name, namespace: request.namespace, tag: request.tag },
    leaseId: request.leaseId,
    ladder: request.ladder,
    lifetimeLimitSeconds: plan.lifetimeLimitSeconds,
    ...traceField(),
  };
  return fragment`
    made as (
      insert into backend (
        id, drone_id, datacenter, clock_id, program, args, env, lifetime_limit_seconds,
        namespace, name, tag, lease_id, fencing_token, status, status_rank
      )
      select
        ${backendId}, ${droneId}, ${plan.datacenter}, g.clock_id, ${program},
        ${JSON.stringify(args)}::jsonb, ${JSON.stringify(env)}::jsonb,
        ${plan.lifetimeLimitSeconds}::int, g.namespace, g.name, g.tag, g.lease_id, g.fencing_token,
        'scheduled', 0
      from granted_here g
    ),
    state as (
      insert into backend_state (backend_id, status) select ${backendId}, 'scheduled' from granted_here
    ),
    request as (
      insert into lease_request (principal, idempotency_key, lease_id, answer, resource, fingerprint)
      select ${idempotent?.principal ?? null}, ${idempotent?.idempotencyKey ?? null}, g.lease_id,
        ${JSON.stringify({ backendId, spawned: true })}::jsonb,
        ${idempotent === null ? null : recordedResource(idempotent)},
        ${idempotent?.fingerprint ?? null}
      from granted_here g
      where ${idempotent !== null}
    ),
    action as (
      insert into backend_action (backend_id, drone_id, kind, payload)
      select ${backendId}, ${droneId}, 'spawn',
        ${JSON.stringify(action)}::jsonb || jsonb_build_object(
          'clockId', g.clock_id,
          'fencingToken', g.fencing_token::text,
          'deadlines', jsonb_build_object(
            'renewAtMs', g.local_ms + ${offsets.renewAtMs}::float8,
            'softTerminateAtMs', g.local_ms + ${offsets.softTerminateAtMs}::float8,
            'hardTerminateAtMs', g.local_ms + ${offsets.hardTerminateAtMs}::float8
          )
        )
      from granted_here g
    )`;
}
