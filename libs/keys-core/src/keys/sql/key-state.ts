import { createCoalescer, type RequestKey } from '../../grants/index.ts';
import type { BackendEnd } from '../../kernel/backends.ts';
import type { LeaseRow } from '../../kernel/lease.ts';
import type { Named, Resource } from '../../kernel/resource.ts';
import type { Store } from '../../postgres/open-store.ts';
import { C, fragment, isFound, type Sql } from '../../postgres/sql.ts';
import type { ConnectResult } from '../key-types.ts';

/** What connect needs of a lease row: half of its columns, because this is the busiest query. */
export type KeyLease = Omit<
  LeaseRow,
  keyof Resource | 'principal' | 'comment' | 'renewAfterMs' | 'softAfterMs' | 'hardAfterMs'
>;

const KEY_LEASE_COLUMNS = fragment`
  l.lease_id as "leaseId", l.fencing_token::text as "fencingToken", l.holder, l.tag,
  date_part('epoch', l.granted_at) * 1000 as "grantedAt",
  date_part('epoch', l.renewed_at) * 1000 as "renewedAt", l.ttl_ms as "ttlMs",
  date_part('epoch', l.expires_at) * 1000 as "expiresAt",
  date_part('epoch', l.released_at) * 1000 as "releasedAt",
  date_part('epoch', l.stops_by) * 1000 as "stopsBy",
  l.end_reason as "endReason", l.renewable,
  date_part('epoch', clock_timestamp()) * 1000 as "asOf"`;

/** A key with its backend and its drone's liveness, from one read and one moment. */
export interface KeyStateRow extends KeyLease {
  readonly backendId: string | null;
  readonly backendStatus: string | null;
  readonly address: string | null;
  readonly droneId: string | null;
  readonly isDroneReachable: boolean;
  /** The reservation that the key is granted under; sealed when it is another datacenter's. */
  readonly homeReservation: string | null;
  /** Somebody has requested a stop of the backend; its drone may not know yet. */
  readonly isStopAsked: boolean;
  /** For how long no backend is started, because the last ones have failed, in milliseconds; mostly 0. */
  readonly delayMs: number;
  /** For how long the key's expiry will not be believed yet, in milliseconds; mostly 0. */
  readonly doubtMs: number;
  /** Whether the idempotency key of the caller's request has been used. */
  readonly isRequestRecorded: boolean;
}

/** A key as one caller asks for it: with the idempotency key of its request, if that has one. */
interface AskedKey extends Named {
  readonly request: RequestKey | undefined;
}

type KeyStateRead = Omit<KeyStateRow, 'doubtMs'>;

/** How many keys one statement reads at most. */
const KEYS_PER_STATEMENT_MAX = 200;
/** While one is answered the next one is in the database; with more, each of them carries too little. */
const STATEMENTS_IN_FLIGHT_MAX = 3;
const QUEUE_MAX = 50_000;

/**
 * Reads keys for many callers at once: reads that are asked for while others are under way share a
 * statement. Each caller gets a state that was read after its call.
 */
export function createKeyStateReader(
  store: Pick<Store, 'transitions' | 'clock' | 'clockWatch'>,
  heartbeatMs: number,
): (key: Named, request: RequestKey | undefined) => Promise<KeyStateRow | undefined> {
  const reads = createCoalescer<AskedKey, KeyStateRow | undefined>({
    run: async (keys) => {
      const sentAtMs = store.clock.nowMs();
      const rows = await readKeyStates(store.transitions, keys, heartbeatMs);
      const seen = rows.find((row) => row !== undefined);
      if (seen !== undefined) {
        store.clockWatch.observe(seen.asOf, sentAtMs, store.clock.nowMs());
      }
      return rows.map((row) => row && { ...row, doubtMs: store.clockWatch.doubtMs(row) });
    },
    // Reads do not exclude each other: one statement may read a key for several callers.
    keysOf: () => [],
    batchSizeMax: KEYS_PER_STATEMENT_MAX,
    inFlightMax: STATEMENTS_IN_FLIGHT_MAX,
    queueMax: QUEUE_MAX,
    isGathering: true,
  });
  return ({ namespace, name }, request) => reads.submit({ namespace, name, request });
}

/**
 * Reads each key, in the order asked; undefined where none exists. A drone is reachable while its
 * newest heartbeat is younger than three intervals, no operator has called it lost, and its warden
 * is still the one that the backend was given to. Index: the primary keys and `backend_lease_id_key`, one
 * probe for each, however large the tables are: see {@link isFound}.
 */
async function readKeyStates(
  sql: Sql<'transitions'>,
  keys: readonly AskedKey[],
  heartbeatMs: number,
) {
  const rows = await sql.$queryRaw<(KeyStateRead & { place: number })[]>`
    select w.place::int as place, ${KEY_LEASE_COLUMNS},
      l.home_reservation as "homeReservation",
      b.id as "backendId", b.status as "backendStatus", b.address, b.drone_id as "droneId",
      coalesce(
        d.lost_at is null and d.clock_id = b.clock_id
          and d.heartbeat_at > clock_timestamp() - ${3 * heartbeatMs} * interval '1 millisecond',
        false
      ) as "isDroneReachable",
      greatest(0, date_part('epoch', k.start_at - clock_timestamp()) * 1000) as "delayMs",
      ${isFound(fragment`
        select true from backend_action a
        where a.backend_id = b.id and a.kind = 'terminate' and a.cancelled_at is null`)} as "isStopAsked",
      ${isFound(fragment`
        select true from lease_request r
        where r.principal = w.principal ${C} and r.idempotency_key = w.idempotency_key ${C}`)}
        as "isRequestRecorded"
    from unnest(
      ${keys.map((key) => key.namespace)}::text[],
      ${keys.map((key) => key.name)}::text[],
      ${keys.map((key) => key.request?.principal ?? null)}::text[],
      ${keys.map((key) => key.request?.idempotencyKey ?? null)}::text[]
    ) with ordinality as w (namespace, name, principal, idempotency_key, place)
    cross join lateral (
      select l.* from lease l
      where l.face = 'key' and l.namespace = w.namespace ${C} and l.name = w.name ${C}
      limit 1
    ) l
    left join lateral (select b.* from backend b where b.lease_id = l.lease_id limit 1) b on true
    left join lateral (select d.* from drone d where d.id = b.drone_id limit 1) d on true
    left join lateral (
      select k.start_at from key_failure k
      where k.namespace = w.namespace ${C} and k.name = w.name ${C}
      limit 1
    ) k on true`;
  const found = new Array<KeyStateRead | undefined>(keys.length).fill(undefined);
  for (const row of rows) found[row.place - 1] = row;
  return found;
}

/** What a caller of `connect` learns about a backend. */
type BackendAnswerRow = Omit<ConnectResult, 'key' | 'spawned'> & ConnectResult['key'];

/** Reads one backend. Index: its primary key. */
export async function readBackendAnswer(
  sql: Sql<'general'>,
  backendId: string,
): Promise<BackendAnswerRow | undefined> {
  const rows = await sql.$queryRaw<BackendAnswerRow[]>`
    select id as "backendId", drone_id as "droneId", datacenter, name, namespace, tag,
      lease_id as "leaseId", fencing_token::text as "fencingToken", status, address
    from backend
    where id = ${backendId}`;
  return rows[0];
}

/** How a backend ended, and what it wrote last. */
interface BackendEndRow extends BackendEnd {
  readonly output: string | null;
  /** From the start of its program; null if that was never started. */
  readonly livedMs: number | null;
}

/** Reads how a backend ended. Index: its primary key, and that of its states. */
export async function readBackendEnd(
  sql: Sql<'general'>,
  backendId: string,
): Promise<BackendEndRow | undefined> {
  const rows = await sql.$queryRaw<BackendEndRow[]>`
    select b.reason, b.exit_code as "exitCode", b.output, ended.detail,
      round(extract(epoch from b.status_at - started.at) * 1000)::float8 as "livedMs"
    from backend b
    left join lateral (
      select s.detail from backend_state s
      where s.backend_id = b.id and s.status = 'terminated'
      order by s.id limit 1
    ) as ended on true
    left join lateral (
      select s.at from backend_state s
      where s.backend_id = b.id and s.status = 'waiting'
      order by s.id limit 1
    ) as started on true
    where b.id = ${backendId}`;
  return rows[0];
}
