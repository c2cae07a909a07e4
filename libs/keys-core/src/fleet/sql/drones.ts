import { readTokensOf } from '../../access/index.ts';
import { statusRank } from '../../kernel/backends.ts';
import {
  type DroneSort,
  type DroneStatus,
  type Offered,
  offeredNames,
  type ProgramTimes,
  type WantedProgram,
} from '../../kernel/drones.ts';
import { LeaseError } from '../../kernel/errors.ts';
import type { Count, FilterOf } from '../../kernel/face-types.ts';
import { boundedCount, decodeCursor, invalidCursor, pageOf } from '../../postgres/paging.ts';
import { readClock, type RecordSql } from '../../postgres/records.ts';
import {
  contains,
  type Dated,
  type Fragment,
  fragment,
  isoDates,
  joinFragments,
  onlyRow,
  type Sql,
} from '../../postgres/sql.ts';
import type {
  DroneEngine,
  DroneView,
  MachineLoad,
  OfferedProgram,
  RemovedDrone,
  WarmProcesses,
} from '../fleet-views.ts';

const TERMINATED_RANK = statusRank('terminated');
/** After this many intervals without a heartbeat a drone counts as unreachable. */
const HEARTBEAT_INTERVALS_MAX = 3;

/** How old a heartbeat may be before its drone counts as unreachable. */
export function heartbeatAgeMsMax(heartbeatMs: number): number {
  return HEARTBEAT_INTERVALS_MAX * heartbeatMs;
}

export interface DroneListInput {
  readonly status?: DroneStatus | undefined;
  readonly program?: string | undefined;
  /** A part of the drone's id, in any case. */
  readonly search?: string | undefined;
  /** By default its id, in ascending order; all others begin with the most. */
  readonly sort?: DroneSort | undefined;
  readonly direction?: 'asc' | 'desc' | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

const machine = (field: string): Fragment => fragment`(v.load -> 'machine' ->> ${field})::float8`;
const SORT_VALUES: Record<DroneSort, Fragment> = {
  droneId: fragment`0`,
  backends: fragment`v."backendCount"`,
  cpu: machine('cpuShare'),
  memory: fragment`${machine('memoryUsedBytes')} / nullif(${machine('memoryBytes')}, 0)`,
  disk: fragment`${machine('diskUsedBytes')} / nullif(${machine('diskBytes')}, 0)`,
};

type DroneRow = Omit<
  Dated<DroneView, 'lostAt' | 'stoppedAt' | 'registeredAt' | 'heartbeatAt' | 'asOf'>,
  'load' | 'roundTripMs' | 'engine' | 'machine' | 'warm'
> & {
  readonly load: {
    readonly backends?: number;
    readonly roundTripMs?: number;
    readonly engine?: DroneEngine;
    readonly machine?: MachineLoad;
    readonly warm?: readonly WarmProcesses[];
  } | null;
};

/** Whether the drone `d` has said goodbye, and has not come back. */
export const HAS_LEFT = fragment`coalesce(d.stopped_session = d.session, false)`;

/** Whether the drone `d` has backends that have not terminated. Index: `backend_drone_id_status_rank_idx`. */
const HAS_BACKENDS = fragment`
  exists (select from backend b where b.drone_id = d.id and b.status_rank < ${TERMINATED_RANK})`;

/** Whether the drone `d` has sent a heartbeat, or opened its session, within three intervals before `asOf`. */
function isHeard(heartbeatMs: number, asOf: Fragment, since: Fragment): Fragment {
  const ageMax = fragment`${heartbeatAgeMsMax(heartbeatMs)}::float8 * interval '1 millisecond'`;
  return fragment`coalesce(${since} >= ${asOf} - ${ageMax}, false)`;
}

/** The status of the drone `d` at `asOf`. One that has left is shown as stopped only when nothing of it may run. */
export function droneStatus(heartbeatMs: number, asOf: Fragment): Fragment {
  return fragment`
    case
      when d.lost_at is not null then 'lost'
      when ${HAS_LEFT} and not ${HAS_BACKENDS} then 'stopped'
      when not ${isHeard(heartbeatMs, asOf, fragment`d.heartbeat_at`)} then 'unreachable'
      when d.draining or ${HAS_LEFT} then 'draining'
      else 'ready'
    end`;
}

/** Whether the drone `d` may still act: it sends heartbeats, and has not left with all its backends ended. */
function isConnected(heartbeatMs: number, asOf: Fragment): Fragment {
  const heard = isHeard(heartbeatMs, asOf, fragment`coalesce(d.heartbeat_at, d.registered_at)`);
  return fragment`(d.lost_at is null and ${heard} and not (${HAS_LEFT} and not ${HAS_BACKENDS}))`;
}

/** What of the drone `d` may still act at this moment of the database's clock. */
function droneFacts(heartbeatMs: number): Fragment {
  return fragment`
    ${isConnected(heartbeatMs, fragment`clock_timestamp()`)} as "isConnected",
    (
      select count(*)::int
      from backend b
      where b.drone_id = d.id and b.status_rank < ${TERMINATED_RANK}
    ) as "backendCount"`;
}

/** A drone's row with its status at this moment of the database's clock. */
function droneRows(heartbeatMs: number): Fragment {
  const asOf = fragment`t.as_of`;
  return fragment`
    select
      d.id as "droneId", d.datacenter, d.draining, d.lost_at as "lostAt",
      case when ${HAS_LEFT} then d.stopped_at end as "stoppedAt", d.version, d.programs,
      d.capacity, d.isolation, d.session::float8 as session, d.clock_id as "clockId",
      d.registered_at as "registeredAt", d.heartbeat_at as "heartbeatAt",
      case
        when d.heartbeat_at is not null
          then greatest(0, round(extract(epoch from t.as_of - d.heartbeat_at) * 1000))::float8
      end as "heartbeatAgeMs",
      ${droneStatus(heartbeatMs, asOf)} as status,
      (
        select count(*)::int
        from backend b
        where b.drone_id = d.id and b.status_rank < ${TERMINATED_RANK}
      ) as "backendCount",
      (
        select coalesce(jsonb_object_agg(p.program, p.backends), '{}')
        from (
          select b.program, count(*)::int as backends
          from backend b
          where b.drone_id = d.id and b.status_rank < ${TERMINATED_RANK}
          group by b.program
        ) as p
      ) as "programBackends",
      case when d.heartbeat_at is not null then d.load end as load,
      ${isConnected(heartbeatMs, asOf)} as "isConnected",
      t.as_of as "asOf"
    from drone d
    cross join (select clock_timestamp() as as_of) as t`;
}

function droneView({ load, ...row }: DroneRow): DroneView {
  const present = row.isConnected ? load : null;
  return {
    ...isoDates(row),
    load: load?.backends === undefined ? null : { backends: load.backends },
    engine: load?.engine ?? null,
    machine: present?.machine ?? null,
    warm: present?.warm ?? [],
    roundTripMs: load?.roundTripMs ?? null,
  };
}

/** Drones by id, with their status judged by the database's clock. */
export async function listDrones(
  sql: Sql<'reads'>,
  input: DroneListInput & { readonly droneId?: string },
  heartbeatMs: number,
): Promise<{ items: DroneView[]; nextCursor: string | null }> {
  const { sort = 'droneId' } = input;
  const { direction = sort === 'droneId' ? 'asc' : 'desc' } = input;
  const value =
    sort === 'droneId' || sort === 'backends'
      ? fragment`${SORT_VALUES[sort]}::float8`
      : fragment`coalesce(case when v."isConnected" then ${SORT_VALUES[sort]} end, -1)`;
  const to = direction === 'asc' ? fragment`asc` : fragment`desc`;
  const rows = await sql.$queryRaw<(DroneRow & { place: number })[]>`
    select *
    from (
      select v.*, ${value} as place
      from (${droneRows(heartbeatMs)}) as v
      where ${conditionsOf(input)}
    ) as v
    where ${afterPlace(input.cursor, direction)}
    order by v.place ${to}, v."droneId" collate "C" ${to}
    limit ${input.limit + 1}`;
  const places = new Map(rows.map(({ droneId, place }) => [droneId, String(place)]));
  const views = rows.map(({ place: _, ...row }) => droneView(row));
  return pageOf(views, input.limit, ({ droneId }) => [places.get(droneId) ?? '', droneId]);
}

/** @throws {LeaseError} `request.invalid` for a cursor that no list has answered. */
function afterPlace(cursor: string | undefined, direction: 'asc' | 'desc'): Fragment {
  if (cursor === undefined) return fragment`true`;
  const [place = '', droneId = ''] = decodeCursor(cursor, 2);
  if (place === '' || !Number.isFinite(Number(place))) throw invalidCursor();
  const comparison = direction === 'asc' ? fragment`>` : fragment`<`;
  return fragment`(v.place, v."droneId" collate "C") ${comparison} (${Number(place)}::float8, ${droneId}::text collate "C")`;
}

/** How many drones all pages have together. */
export async function countListedDrones(
  sql: Sql<'reads'>,
  input: FilterOf<DroneListInput>,
  heartbeatMs: number,
): Promise<Count> {
  return boundedCount(sql, fragment`(${droneRows(heartbeatMs)}) as v where ${conditionsOf(input)}`);
}

function conditionsOf({
  droneId,
  status,
  program,
  search,
}: FilterOf<DroneListInput> & { readonly droneId?: string }): Fragment {
  return joinFragments(
    [
      droneId === undefined ? fragment`true` : fragment`v."droneId" = ${droneId} collate "C"`,
      status === undefined ? fragment`true` : fragment`v.status = ${status}::text`,
      program === undefined
        ? fragment`true`
        : fragment`v.programs @> jsonb_build_array(jsonb_build_object('name', ${program}::text))`,
      search === undefined ? fragment`true` : contains(fragment`v."droneId"`, search),
    ],
    ' and ',
  );
}

/** @throws {LeaseError} `drone.not_found`. */
export async function getDrone(
  sql: Sql<'reads'>,
  droneId: string,
  heartbeatMs: number,
): Promise<DroneView> {
  const { items } = await listDrones(sql, { droneId, limit: 1 }, heartbeatMs);
  const [drone] = items;
  if (drone === undefined) throw new LeaseError('drone.not_found');
  return drone;
}

/**
 * Sets whether a drone takes new backends.
 *
 * Waits for every connect that has already chosen the drone: connect locks the row `for key share`, this locks it
 * `for update`. So what the drone runs after this statement has answered is all that it will run. A typed query
 * could not lock it: it updates no key, so it would not wait.
 * @returns whether anything changed, and the drone's newest session. @throws {LeaseError} `drone.not_found`.
 */
export async function setDraining(
  sql: Sql<'general'>,
  droneId: string,
  draining: boolean,
): Promise<{ changed: boolean; session: number }> {
  const [row] = await sql.$queryRaw<{ wasDraining: boolean; session: number }[]>`
    with locked as materialized (
      select d.id, d.draining, d.session
      from drone d
      where d.id = ${droneId} collate "C"
      for update
    ),
    changed as (
      update drone d
      set draining = ${draining}
      from locked k
      where d.id = k.id
    )
    select k.draining as "wasDraining", k.session::float8 as session from locked k`;
  if (row === undefined) throw new LeaseError('drone.not_found');
  return { changed: row.wasDraining !== draining, session: row.session };
}

/**
 * Records that an operator marked a drone lost: it takes no new backends until it opens a new
 * session and is undrained. Frees no key: a lost drone's keys run out. A typed query would have no clock to judge by.
 * @param session the newest one when the drone was drained for this: one that has opened another since, or was
 * undrained, is not lost. Without it, whatever its session
 * @returns whether it is lost now
 */
export async function setLost(
  sql: Sql<'general'>,
  droneId: string,
  session?: number,
): Promise<boolean> {
  const isAsDrained =
    session === undefined
      ? fragment`true`
      : fragment`d.draining and d.session = ${session}::bigint`;
  const lost = await sql.$queryRaw<{ id: string }[]>`
    update drone d
    set lost_at = coalesce(d.lost_at, clock_timestamp()), draining = true
    where d.id = ${droneId} collate "C" and ${isAsDrained}
    returning d.id`;
  return lost.length > 0;
}

/** The grants under which a drone runs backends, oldest first, for blocking their renewal. */
export async function heldLeaseIds({ records }: RecordSql, droneId: string): Promise<string[]> {
  const backends = await records.backend.findMany({
    where: { droneId, statusRank: { lt: TERMINATED_RANK } },
    orderBy: [{ createdAt: 'asc' }, { id: 'asc' }],
    select: { leaseId: true },
  });
  return backends.map(({ leaseId }) => leaseId);
}

/** How many drones there are of each status. */
export async function countDrones(
  sql: Sql<'general' | 'guests'>,
  heartbeatMs: number,
): Promise<Record<DroneStatus, number>> {
  const { ready, draining, stopped, unreachable, lost } = await readDroneGroups(sql, heartbeatMs);
  return {
    ready: ready.count,
    draining: draining.count,
    stopped: stopped.count,
    unreachable: unreachable.count,
    lost: lost.count,
  };
}

/** The drones of one status. */
export interface DroneGroup {
  readonly count: number;
  /** Those that are in it for longest, {@link DRONES_NAMED_MAX} at most. */
  readonly named: readonly {
    readonly droneId: string;
    /** Since when, as epoch milliseconds of the database; null where it is not recorded. */
    readonly since: number | null;
  }[];
}

const DRONES_NAMED_MAX = 3;

/**
 * How many drones there are of each status, and which. A drone is unreachable since its last heartbeat, or since
 * it was registered; since when one is ready or draining is not recorded. Reads all drones, which are few.
 * Locks nothing.
 */
export async function readDroneGroups(
  sql: Sql<'general' | 'guests'>,
  heartbeatMs: number,
): Promise<Record<DroneStatus, DroneGroup>> {
  const rows = await sql.$queryRaw<(DroneGroup & { status: DroneStatus })[]>`
    with timed as (
      select v.status, v."droneId",
        case v.status
          when 'lost' then v."lostAt"
          when 'stopped' then v."stoppedAt"
          when 'unreachable' then coalesce(v."heartbeatAt", v."registeredAt")
        end as since
      from (${droneRows(heartbeatMs)}) as v
    ),
    ranked as (
      select t.*, row_number() over (partition by t.status order by t.since, t."droneId" collate "C") as place
      from timed t
    )
    select r.status, count(*)::int as count,
      jsonb_agg(
        jsonb_build_object('droneId', r."droneId", 'since', extract(epoch from r.since) * 1000)
        order by r.place
      ) filter (where r.place <= ${DRONES_NAMED_MAX}::int) as named
    from ranked r
    group by r.status`;
  const none: DroneGroup = { count: 0, named: [] };
  const groups = { ready: none, draining: none, stopped: none, unreachable: none, lost: none };
  for (const { status, ...group } of rows) groups[status] = group;
  return groups;
}

/** The names of this many tokens are in an answer. */
const TOKENS_NAMED_MAX = 20;

/**
 * Forgets a drone that is not connected and of whose backends none may run. Its ended backends, the history and the
 * audit keep its id. Tokens stay as they are: one that is in force may register the id again, as a new drone.
 *
 * - **Locks** the drone's row, as draining does: a connect that has chosen the drone comes first, and is seen.
 * - What was never acknowledged is cancelled: nobody will.
 *
 * @throws {LeaseError} `drone.not_found`, `drone.in_use`.
 */
export async function removeDrone(
  tx: RecordSql,
  droneId: string,
  heartbeatMs: number,
): Promise<RemovedDrone> {
  const locked = await tx.$queryRaw<{ id: string }[]>`
    select d.id from drone d where d.id = ${droneId} collate "C" for update`;
  if (locked.length === 0) throw new LeaseError('drone.not_found');
  // Read after the lock was had: a statement does not see what was committed while it waited.
  const { isConnected, backendCount } = onlyRow(
    await tx.$queryRaw<{ isConnected: boolean; backendCount: number }[]>`
      select ${droneFacts(heartbeatMs)} from drone d where d.id = ${droneId} collate "C"`,
  );
  if (isConnected || backendCount > 0) {
    throw new LeaseError('drone.in_use', problemOf(isConnected, backendCount), {
      details: { isConnected, backendCount },
    });
  }
  const { drone, backendAction, droneQuestion } = tx.records;
  await drone.deleteMany({ where: { id: droneId } });
  await backendAction.updateMany({
    where: { droneId, ackedAt: null, cancelledAt: null },
    data: { cancelledAt: await readClock(tx) },
  });
  await droneQuestion.deleteMany({ where: { droneId } });
  return { tokens: await readTokensOf(tx, droneId, TOKENS_NAMED_MAX) };
}

function problemOf(isConnected: boolean, backendCount: number): string {
  const backends = `${String(backendCount)} of its backends may still run`;
  if (!isConnected) return `${backends}: they end at the latest when their keys expire.`;
  return `The drone is connected${backendCount > 0 ? `, and ${backends}` : ''}: stop it first.`;
}

/**
 * The scheduler: drones that offer the program, are neither draining nor lost, have room and a
 * fresh heartbeat of their present clock; those that have just refused a start only if there is no other; of two of
 * them taken at random, the one with fewer live backends. Two random choices are nearly as even as the best of all, and controllers that choose
 * at the same moment do not all choose the same drone.
 */
export interface DroneChoiceInput extends WantedProgram {
  readonly datacenter: string;
  readonly heartbeatMs: number;
  /** A number in `[0, 1)`. */
  readonly random: () => number;
}

/**
 * `not_allowed`: drones offer the program, and none of them takes what the request passes. `not_offered`: none is
 * known that offers it; `offered` names what reachable drones do.
 */
type DroneChoice =
  | ({ readonly droneId: string } & ProgramTimes)
  | { readonly problem: 'no_drone' | 'not_allowed' }
  | { readonly problem: 'not_offered'; readonly offered: readonly string[] };

/** A drone that offers the program. */
interface Candidate {
  readonly droneId: string;
  readonly program: OfferedProgram;
  readonly isAvailable: boolean;
  /** Whether it has refused a start a moment ago: it would probably refuse the next one too. */
  readonly hasRefused: boolean;
  readonly backendCount: number;
}

/** Chooses a drone for a spawn. Advice only: the connect transaction checks the drone again. */
export async function chooseDrone(
  store: { readonly general: Sql<'general'> },
  input: DroneChoiceInput,
): Promise<DroneChoice> {
  if (Object.keys(input.env).some(isForbiddenEnv)) return { problem: 'not_allowed' };
  const candidates = await readCandidates(store.general, input);
  if (candidates.length === 0) {
    const programs = await readOfferedPrograms(store.general, input);
    return { problem: 'not_offered', offered: offeredNames(programs.map(({ name }) => name)) };
  }
  const willing = candidates.filter((candidate) => isSpawnAllowed(candidate.program, input));
  if (willing.length === 0) return { problem: 'not_allowed' };
  const available = willing.filter((candidate) => candidate.isAvailable);
  const likely = available.filter((candidate) => !candidate.hasRefused);
  const chosen = lessLoadedOfTwo(likely.length > 0 ? likely : available, input.random);
  if (chosen === undefined) return { problem: 'no_drone' };
  const { lifetimeLimitSeconds, idleStopSeconds } = chosen.program;
  return { droneId: chosen.droneId, lifetimeLimitSeconds, idleStopSeconds };
}

/** Of two different candidates taken at random, the one with fewer backends. */
function lessLoadedOfTwo(candidates: readonly Candidate[], random: () => number) {
  if (candidates.length < 2) return candidates[0];
  const firstIndex = Math.floor(random() * candidates.length);
  const step = 1 + Math.floor(random() * (candidates.length - 1));
  const first = candidates[firstIndex];
  const second = candidates[(firstIndex + step) % candidates.length];
  if (first === undefined || second === undefined) return first;
  return second.backendCount < first.backendCount ? second : first;
}

/** For how long a drone that has refused a start is chosen last. */
const REFUSED_SECONDS = 10;

/** A new clock voids `heartbeat_at`, so a fresh one is always of the present clock. */
async function readCandidates(sql: Sql<'general'>, input: DroneChoiceInput): Promise<Candidate[]> {
  const staleAfterMs = heartbeatAgeMsMax(input.heartbeatMs);
  return sql.$queryRaw<Candidate[]>`
    select
      d.id as "droneId", p.program, coalesce(b.live, 0)::int as "backendCount",
      not d.draining and d.lost_at is null and not ${HAS_LEFT} and coalesce(b.live, 0) < d.capacity
        and d.heartbeat_at is not null
        and d.heartbeat_at >= clock_timestamp() - ${staleAfterMs}::float8 * interval '1 millisecond'
        as "isAvailable",
      coalesce(
        d.refused_at > clock_timestamp() - ${REFUSED_SECONDS}::int * interval '1 second', false
      ) as "hasRefused"
    from drone d
    cross join lateral (
      select e.program
      from jsonb_array_elements(d.programs) as e (program)
      where e.program ->> 'name' = ${input.program}
      limit 1
    ) as p
    left join lateral (
      select count(*) as live
      from backend x
      where x.drone_id = d.id and x.status_rank < ${statusRank('terminated')}
    ) as b on true
    where d.datacenter = ${input.datacenter}`;
}

/** Names that Leasehold and the loader own: no program may allow a request to set them. */
const FORBIDDEN_ENV = /^(?:LEASEHOLD_.*|PORT|PATH|LD_.*|DYLD_.*|NODE_OPTIONS)$/su;

/** Whether an environment variable may never be set by a request, whatever a program allows. */
function isForbiddenEnv(name: string): boolean {
  return FORBIDDEN_ENV.test(name);
}

/** Whether a program takes the arguments and the environment of a request. */
function isSpawnAllowed(
  program: OfferedProgram,
  request: Pick<WantedProgram, 'args' | 'env'>,
): boolean {
  if (request.args.length > 0 && !program.allowArgs) return false;
  return Object.keys(request.env).every(
    (name) => !isForbiddenEnv(name) && program.allowEnv.includes(name),
  );
}

/** Judges requests by what drones offer. */
export function offerOf(programs: readonly OfferedProgram[]): Offered {
  return {
    names: offeredNames(programs.map(({ name }) => name)),
    judge: (wanted) => {
      const named = programs.filter(({ name }) => name === wanted.program);
      if (named.some((program) => isSpawnAllowed(program, wanted))) return 'offered';
      return named.length > 0 ? 'not_allowed' : 'missing';
    },
  };
}

/**
 * What the drones of a datacenter offer: those that are neither draining nor lost and have a fresh heartbeat,
 * full ones too. Each different program once.
 */
export async function readOfferedPrograms(
  sql: Sql<'general'>,
  { datacenter, heartbeatMs }: { readonly datacenter: string; readonly heartbeatMs: number },
): Promise<OfferedProgram[]> {
  const rows = await sql.$queryRaw<{ offeredProgram: OfferedProgram }[]>`
    select distinct e.program as "offeredProgram"
    from drone d
    cross join lateral jsonb_array_elements(d.programs) as e (program)
    where d.datacenter = ${datacenter} and not d.draining and d.lost_at is null
      and not ${HAS_LEFT}
      and d.heartbeat_at >= clock_timestamp()
        - ${heartbeatAgeMsMax(heartbeatMs)}::float8 * interval '1 millisecond'`;
  return rows.map(({ offeredProgram }) => offeredProgram);
}
