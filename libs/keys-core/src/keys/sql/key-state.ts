import { createCoalescer, type RequestKey } from '../../grants/index.ts';
import type { BackendEnd } from '../../kernel/backends.ts';
import type { LeaseRow } from '../../kernel/lease.ts';
import { keyTopic, type Named, type Resource } from '../../kernel/resource.ts';
import type { Store } from '../../postgres/open-store.ts';
import { C, fragment, isFound, type Sql } from '../../postgres/sql.ts';
import type { ConnectResult } from '../key-types.ts';
import { isStopAsked } from './idle-stop.ts';

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
  /** Whether the backend is stopped when nobody uses it: each caller that is sent to it is noted as a use then. */
  readonly hasIdleStop: boolean;
  /** The reservation that the key is granted under; sealed when it is another datacenter's. */
  readonly homeReservation: string | null;
  /** Somebody has requested a stop of the backend; its drone may not know yet. */
  readonly isStopAsked: boolean;
  /** For how long no backend is started, because the last ones have failed, in milliseconds; mostly 0. */
  readonly delayMs: number;
  /** For how long the key's expiry will not be believed yet, in milliseconds; mostly 0. */
  readonly doubtMs: number;
}

/** What one caller asks for: a key, and whether the idempotency key of its request has been used. */
interface AskedKey {
  readonly key: Named;
  readonly request: RequestKey | undefined;
}

/** What one caller is told. */
export interface FoundKey<State> {
  /** Undefined where no such key exists. Of all that asked for the key together. */
  readonly state: State | undefined;
  /** Whether the idempotency key has been used. Not read, and false, where no key was found. */
  readonly isRequestRecorded: boolean;
}

type KeyStateRead = Omit<KeyStateRow, 'doubtMs'>;

/** How many keys one statement reads at most. */
const KEYS_PER_STATEMENT_MAX = 200;
/** While one is answered the next one is in the database; with more, each of them carries too little. */
const STATEMENTS_IN_FLIGHT_MAX = 3;
const QUEUE_MAX = 50_000;

/**
 * Reads keys for many callers at once: reads that are asked for while others are under way share a
 * statement, and read a key once, however many ask for it. Each caller gets a state that was read after its
 * call. `stateOf` makes it, once for each key.
 */
export function createKeyStateReader<State>(
  store: Pick<Store, 'transitions' | 'clock' | 'clockWatch'>,
  heartbeatMs: number,
  stateOf: (row: KeyStateRow) => State,
): (key: Named, request: RequestKey | undefined) => Promise<FoundKey<State>> {
  const reads = createCoalescer<AskedKey, FoundKey<State>>({
    run: async (asked) => {
      const { keys, places } = distinctKeys(asked);
      const sentAtMs = store.clock.nowMs();
      const rows = await readKeyStates(store.transitions, { keys, asked }, heartbeatMs);
      const [seen] = rows;
      if (seen !== undefined) {
        store.clockWatch.observe(seen.asOf, sentAtMs, store.clock.nowMs());
      }
      const states = new Array<State | undefined>(keys.length).fill(undefined);
      for (const row of rows) {
        states[row.place - 1] = stateOf({ ...row, doubtMs: store.clockWatch.doubtMs(row) });
      }
      const recorded = new Set(seen?.recordedPlaces);
      return places.map((place, index) => ({
        state: states[place],
        isRequestRecorded: recorded.has(index + 1),
      }));
    },
    // Reads do not exclude each other: one statement may read a key for several callers.
    keysOf: () => [],
    batchSizeMax: KEYS_PER_STATEMENT_MAX,
    inFlightMax: STATEMENTS_IN_FLIGHT_MAX,
    queueMax: QUEUE_MAX,
    isGathering: true,
  });
  return (key, request) => reads.submit({ key, request });
}

/** Each key once, and for each that asks the place of its key. */
function distinctKeys(asked: readonly AskedKey[]): { keys: Named[]; places: number[] } {
  const keys: Named[] = [];
  const placeOf = new Map<string, number>();
  const places = asked.map(({ key }) => {
    const text = keyTopic(key);
    const known = placeOf.get(text);
    if (known !== undefined) return known;
    placeOf.set(text, keys.length);
    return keys.push(key) - 1;
  });
  return { keys, places };
}

/** A key at its place among those that were read, from 1. */
interface PlacedRead extends KeyStateRead {
  readonly place: number;
  /** The places of requests, from 1, whose idempotency keys have been used: the same in each row. */
  readonly recordedPlaces: readonly number[] | null;
}

/**
 * Reads each key that exists, and which requests have been recorded. A drone is reachable while its
 * newest heartbeat is younger than three intervals, no operator has called it lost, and its warden
 * is still the one that the backend was given to. Index: the primary keys and `backend_lease_id_key`, one
 * probe for each, however large the tables are: see {@link isFound}.
 */
function readKeyStates(
  sql: Sql<'transitions'>,
  { keys, asked }: { readonly keys: readonly Named[]; readonly asked: readonly AskedKey[] },
  heartbeatMs: number,
): Promise<PlacedRead[]> {
  return sql.$queryRaw<PlacedRead[]>`
    select w.place::int as place, ${KEY_LEASE_COLUMNS},
      l.home_reservation as "homeReservation",
      b.id as "backendId", b.status as "backendStatus", b.address, b.drone_id as "droneId",
      coalesce(
        d.lost_at is null and d.clock_id = b.clock_id
          and d.heartbeat_at > clock_timestamp() - ${3 * heartbeatMs} * interval '1 millisecond',
        false
      ) as "isDroneReachable",
      -- No delay is longer: one that is further ahead is from before the clock went back.
      case when k.start_at <= clock_timestamp() + interval '60 seconds'
        then greatest(0, date_part('epoch', k.start_at - clock_timestamp()) * 1000) else 0
      end as "delayMs",
      b.idle_stop_seconds is not null as "hasIdleStop",
      b.stop_asked_at is not null or ${isStopAsked(fragment`b.id`)} as "isStopAsked",
      (
        select array_agg(q.place::int)
        from unnest(
          ${asked.map(({ request }) => request?.principal ?? null)}::text[],
          ${asked.map(({ request }) => request?.idempotencyKey ?? null)}::text[]
        ) with ordinality as q (principal, idempotency_key, place)
        where ${isFound(fragment`
          select true from lease_request r
          where r.id = lease_request_id(q.principal, q.idempotency_key)`)}
      ) as "recordedPlaces"
    from unnest(
      ${keys.map((key) => key.namespace)}::text[],
      ${keys.map((key) => key.name)}::text[]
    ) with ordinality as w (namespace, name, place)
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
}

/** What a caller of `connect` learns about a backend. */
type BackendAnswerRow = Omit<ConnectResult, 'key' | 'spawned'> &
  ConnectResult['key'] & { readonly hasIdleStop: boolean };

/** Reads one backend. Index: its primary key. */
export async function readBackendAnswer(
  sql: Sql<'general'>,
  backendId: string,
): Promise<BackendAnswerRow | undefined> {
  const rows = await sql.$queryRaw<BackendAnswerRow[]>`
    select id as "backendId", drone_id as "droneId", datacenter, name, namespace, tag,
      lease_id as "leaseId", fencing_token::text as "fencingToken", status, address,
      idle_stop_seconds is not null as "hasIdleStop"
    from backend
    where id = ${backendId}`;
  return rows[0];
}

/** How a backend ended, and what it wrote last. */
interface BackendEndRow extends BackendEnd {
  readonly output: string | null;
  /** From the start of its program; null if that was never started. */
  readonly livedMs: number | null;
  /** Whether its drone has begun to start it: one that it refuses goes from scheduled to terminated. */
  readonly wasBegun: boolean;
}

/** Reads how a backend ended. Index: its primary key, and that of its states. */
export async function readBackendEnd(
  sql: Sql<'general'>,
  backendId: string,
): Promise<BackendEndRow | undefined> {
  const rows = await sql.$queryRaw<BackendEndRow[]>`
    select b.reason, b.exit_code as "exitCode", b.output, ended.detail,
      round(extract(epoch from b.status_at - started.at) * 1000)::float8 as "livedMs",
      exists (
        select from backend_state s
        where s.backend_id = b.id and s.status not in ('scheduled', 'terminated')
      ) as "wasBegun"
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
