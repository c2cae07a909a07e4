/**
 * The scheduler: drones that offer the program, are neither draining nor lost, have room and a
 * fresh heartbeat of their present clock; those that have just refused a start only if there is no other; of two of
 * them taken at random, the one with fewer live backends. Two random choices are nearly as even as the best of all, and controllers that choose
 * at the same moment do not all choose the same drone.
 */
import { statusRank } from '../../kernel/backends.ts';
import {
  type Offered,
  offeredNames,
  type ProgramTimes,
  type WantedProgram,
} from '../../kernel/drones.ts';
import type { Sql } from '../../postgres/sql.ts';
import type { OfferedProgram } from '../fleet-views.ts';
import { HAS_LEFT, heartbeatAgeMsMax } from './drones.ts';

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
export type DroneChoice =
  | ({ readonly droneId: string } & ProgramTimes)
  | { readonly problem: 'no_drone' | 'not_allowed' }
  | { readonly problem: 'not_offered'; readonly offered: readonly string[] };

/** A drone that offers the program. */
export interface Candidate {
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
