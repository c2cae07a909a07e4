import { HOUR_MS, MINUTE_MS, SECOND_MS, type World } from './world.ts';

/** A machine of the company's; the real one of the stack is not among them. */
export interface SeededDrone {
  readonly droneId: string;
  readonly clockId: string;
  readonly programs: readonly string[];
  /** `silent` has sent nothing for minutes; an operator declared `lost`. */
  readonly state: 'ready' | 'draining' | 'silent' | 'lost';
}

const MACHINES: readonly Omit<SeededDrone, 'clockId'>[] = [
  { droneId: 'drone-fra-2', programs: ['document-sync', 'board'], state: 'ready' },
  { droneId: 'drone-fra-3', programs: ['document-sync', 'board', 'notebook'], state: 'ready' },
  { droneId: 'drone-ams-1', programs: ['notebook', 'build'], state: 'draining' },
  { droneId: 'drone-ams-2', programs: ['build'], state: 'silent' },
  { droneId: 'drone-lon-1', programs: ['board'], state: 'lost' },
];

const CAPACITY = 120;

/** Puts the machines into the world. */
export function addDrones(world: World, datacenter: string): SeededDrone[] {
  return MACHINES.map((machine, index) => {
    const drone = { ...machine, clockId: world.chance.uuid() };
    world.add('drone', {
      id: drone.droneId,
      datacenter,
      clock_id: drone.clockId,
      session: world.chance.int(1, 9),
      version: drone.state === 'lost' ? '0.9.4' : '1.0.0',
      programs: drone.programs.map((name) => ({ name, allowArgs: false, allowEnv: [] })),
      capacity: CAPACITY,
      draining: drone.state === 'draining' || drone.state === 'lost',
      lost_at: drone.state === 'lost' ? world.ago(3 * HOUR_MS) : null,
      registered_at: world.ago((20 + index * 9) * HOUR_MS),
      local_time_ms: 1_000_000 + index,
      heartbeat_at: world.ago(heartbeatAgeMs(drone.state)),
      load: {
        backends: 0,
        roundTripMs: world.chance.int(4, 40) / 10,
        machine: {
          cpuShare: world.chance.int(20, 700) / 1_000,
          processors: 16,
          memoryUsedBytes: world.chance.int(8, 60) * 2 ** 30,
          memoryBytes: 64 * 2 ** 30,
          diskUsedBytes: world.chance.int(40, 300) * 2 ** 30,
          diskBytes: 400 * 2 ** 30,
        },
      },
    });
    return drone;
  });
}

function heartbeatAgeMs(state: SeededDrone['state']): number {
  if (state === 'silent') return 4 * MINUTE_MS;
  return state === 'lost' ? 3 * HOUR_MS + 20 * SECOND_MS : 0.4 * SECOND_MS;
}

/** The states that a backend goes through until it is ready. */
const STATUSES: readonly string[] = ['scheduled', 'loading', 'starting', 'waiting', 'ready'];
const RANKS: Readonly<Record<string, number>> = {
  ...Object.fromEntries(STATUSES.map((status, rank): [string, number] => [status, rank])),
  terminating: 5,
  hard_terminating: 6,
  terminated: 7,
};

/** A backend to be seeded. */
interface NewBackend {
  readonly drone: Pick<SeededDrone, 'droneId' | 'clockId'>;
  readonly datacenter: string;
  readonly program: string;
  readonly key: { readonly namespace: string; readonly name: string; readonly tag: string };
  readonly grant: { readonly leaseId: string; readonly fencingToken: string };
  readonly startedAgoMs: number;
  readonly status: string;
  /** How it ended, or is ending. */
  readonly end?:
    | { readonly reason: string; readonly exitCode: number | null; readonly agoMs: number }
    | undefined;
}

/** Puts a backend and its history into the world. */
export function addBackend(world: World, of: NewBackend): void {
  const { chance } = world;
  const backendId = `bk-${chance.code(14)}`;
  const address = `10.20.${String(chance.int(1, 6))}.${String(chance.int(2, 250))}:${String(chance.int(20_000, 29_999))}`;
  const rank = rankOf(of.status);
  const steps = stepsOf(of);
  const { reason = null, exitCode = null } = of.end ?? {};
  world.add('backend', {
    id: backendId,
    drone_id: of.drone.droneId,
    datacenter: of.datacenter,
    clock_id: of.drone.clockId,
    program: of.program,
    args: [],
    env: {},
    ...of.key,
    lease_id: of.grant.leaseId,
    fencing_token: of.grant.fencingToken,
    status: of.status,
    status_rank: rank,
    reason,
    address: rank >= READY_RANK ? address : null,
    exit_code: exitCode,
    created_at: world.ago(of.startedAgoMs),
    status_at: world.ago(steps.at(-1)?.agoMs ?? of.startedAgoMs),
  });
  for (const { status, agoMs } of steps) {
    world.add('backend_state', {
      backend_id: backendId,
      status,
      reason: rankOf(status) > READY_RANK ? reason : null,
      address: status === 'ready' ? address : null,
      exit_code: status === 'terminated' ? exitCode : null,
      at: world.ago(agoMs),
    });
  }
}

const READY_RANK = 4;
/** How long a backend takes from one state to the next, and to stop. */
const STEP_MS = 180;
const STOP_MS = 2_400;

function rankOf(status: string): number {
  return RANKS[status] ?? 0;
}

/** The states that it has been in, oldest first. */
function stepsOf(of: NewBackend): { status: string; agoMs: number }[] {
  const rank = rankOf(of.status);
  const started = STATUSES.slice(0, Math.min(rank, READY_RANK) + 1).map((status, index) => ({
    status,
    agoMs: of.startedAgoMs - index * STEP_MS,
  }));
  if (rank <= READY_RANK) return started;
  const endedAgoMs = of.end?.agoMs ?? 4_000;
  const ended = [
    { status: 'terminating', agoMs: endedAgoMs + STOP_MS },
    { status: 'terminated', agoMs: endedAgoMs },
  ];
  return [...started, ...ended.slice(0, of.status === 'terminated' ? 2 : 1)];
}
