/** What a controller sends to a drone in its session. */
import type { TERMINATION_REASONS } from './backends.ts';
import type { Deadlines } from './ladder.ts';

/** The first message of a session. Everything that the drone sends carries its number. */
export interface SessionOpened {
  kind: 'session';
  session: number;
  heartbeatMs: number;
}

export interface SpawnAction {
  kind: 'spawn';
  actionId: string;
  session: number;
  clockId: string;
  backendId: string;
  program: string;
  args: string[];
  env: Record<string, string>;
  key: { name: string; namespace: string; tag: string };
  leaseId: string;
  fencingToken: string;
  /** First-grant deadlines: the drone renews the grant before it starts a process. */
  deadlines: Deadlines;
  ladder: { renewAfterMs: number; softAfterMs: number; hardAfterMs: number; ttlMs: number };
  lifetimeLimitSeconds: number | null;
  /** The trace that the connect belongs to, if a controller sends traces. */
  trace?: Readonly<Record<string, string>>;
}

export interface TerminateAction {
  kind: 'terminate';
  actionId: string;
  session: number;
  clockId: string;
  backendId: string;
  mode: 'soft' | 'hard';
  reason: (typeof TERMINATION_REASONS)[number];
  trace?: Readonly<Record<string, string>>;
}

/** Which part of a backend's output is wanted: the one after a position, or the last lines, or all that is kept. */
export interface LogRequest {
  backendId: string;
  /** In bytes from the beginning of the output, as an earlier page has named it. */
  from?: number | undefined;
  /** The last lines; with `sinceMs` the last of those. */
  tail?: number | undefined;
  /** Nothing older than this, by the drone's own clock. */
  sinceMs?: number | undefined;
  /** How long to wait for output when nothing is there. */
  waitMs?: number | undefined;
}

/** One line that a backend has written. Control characters are escapes already. */
export interface LogLine {
  /** ISO-8601 UTC, by the drone's clock. */
  at: string;
  stream: 'stdout' | 'stderr';
  text: string;
}

/** A part of a backend's output. */
export interface LogPage {
  backendId: string;
  lines: LogLine[];
  /** Where this page begins: after the position that was asked for where older output is gone. */
  from: number;
  /** Where the next page begins. */
  position: number;
  /** Whether more can be read at once. */
  hasMore: boolean;
  /** Whether the drone has output of it: it removes what is old, and a backend that never ran has none. */
  isThere: boolean;
  /** Whether this is the last page: the backend has ended, and everything was read. */
  hasEnded: boolean;
}

/** A question to a drone, which it answers by `drones.answer`. Sent once in a session; the caller gives up soon. */
export interface LogQuestion {
  kind: 'read_log';
  questionId: string;
  session: number;
  request: LogRequest;
}

/** What `drones.session` yields. */
export type DroneMessage = SessionOpened | SpawnAction | TerminateAction | LogQuestion;

/**
 * An operator sets `lost` and `draining`; a stale heartbeat makes a drone `unreachable`. One that has said goodbye
 * is `draining` until its backends have ended, and `stopped` then.
 */
export const DRONE_STATUSES = ['ready', 'draining', 'stopped', 'unreachable', 'lost'] as const;
export type DroneStatus = (typeof DRONE_STATUSES)[number];

/** What drones are ordered by. Those of which the value is not known come as if it were less than nothing. */
export const DRONE_SORTS = ['droneId', 'backends', 'cpu', 'memory', 'disk'] as const;
export type DroneSort = (typeof DRONE_SORTS)[number];

/** How the programs of a drone are isolated from the drone itself, as far as its machine allows it. */
export interface DroneIsolation {
  /** `own`: each program runs as a user of its own. `shared`: as the drone's user. */
  readonly user: 'own' | 'shared';
  readonly pidNamespace: boolean;
  readonly privateProc: boolean;
  /** The drone's folders are hidden from programs. */
  readonly hiddenHome: boolean;
  readonly noNewPrivs: boolean;
  /** What is missing, limits of what programs use included, in words; or {@link NOTHING_MISSING}. */
  readonly detail: string;
}

/** The `detail` of a drone whose machine provides everything. Part of the HTTP API: it never changes. */
export const NOTHING_MISSING = 'nothing is missing';

/** Whether the machine provides everything that a drone can use. */
export function isFullyIsolated(isolation: DroneIsolation): boolean {
  const { user, pidNamespace, privateProc, hiddenHome, noNewPrivs, detail } = isolation;
  const isComplete = user === 'own' && pidNamespace && privateProc && hiddenHome && noNewPrivs;
  // Limits are no field: controllers of the version before would refuse one.
  return isComplete && detail === NOTHING_MISSING;
}

// What drones offer, and what requests want of it.

/** For how long a backend may live, and be without a use; left out for any time. */
export interface ProgramTimes {
  readonly lifetimeLimitSeconds?: number | undefined;
  readonly idleStopSeconds?: number | undefined;
}

/** What a request wants to start. */
export interface WantedProgram {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** `not_allowed`: drones offer the program, and none takes what the request passes to it. */
export type Offer = 'offered' | 'not_allowed' | 'missing';

/** What the drones of a datacenter offer. */
export interface Offered {
  judge(wanted: WantedProgram): Offer;
  /** Of its programs, each once, in order, `OFFERED_NAMES_MAX` at most. */
  readonly names: readonly string[];
}

/** How many programs a refusal names. */
const OFFERED_NAMES_MAX = 50;

/** The names of programs, each once, in order, as many as a refusal names. */
export function offeredNames(programs: Iterable<string>): readonly string[] {
  return [...new Set(programs)].toSorted().slice(0, OFFERED_NAMES_MAX);
}
