import type { EventLag } from '../events/index.ts';
import type { BackendStatus, TerminationReason } from '../kernel/backends.ts';
import type { Face } from '../kernel/resource.ts';
import type { ClockJumpView } from '../postgres/clock/clock-jumps.ts';
import type { HoldOffView } from '../postgres/witness/epoch.ts';

/** How many resources of a face are in which state. The first three are disjoint, as phases are. */
export interface FaceCounts {
  readonly held: number;
  /** Still held, but no longer renewable: blocked, or revoked and about to stop. */
  readonly expiring: number;
  /** Past their expiry and not recorded by the reaper yet. */
  readonly overdue: number;
  /** Resources that somebody waits for. */
  readonly contended: number;
  readonly waiters: number;
}

/**
 * What happened in one step of time. Instants are the database's. Grants, releases, expiries and
 * revocations are those of all services, each counted once; the others are answers of controllers.
 */
export interface StatsPoint {
  /** The step's beginning, ISO-8601. */
  readonly at: string;
  readonly grants: number;
  /** Grants that were denied; a connect that was given the running backend does not count. */
  readonly denials: number;
  readonly renewals: number;
  readonly refusedRenewals: number;
  readonly releases: number;
  readonly expiries: number;
  readonly revocations: number;
  /** How long callers waited, including those that gave up. Null when nobody waited. */
  readonly waitMsP50: number | null;
  readonly waitMsP99: number | null;
  /** From the end of a grant to the next one, of a caller that waited for it; null when none existed. */
  readonly handoverMsP50: number | null;
  readonly handoverMsP99: number | null;
}

/** A resource that callers wait for. */
export interface ContendedResource {
  readonly face: Face;
  readonly namespace: string;
  readonly name: string;
  readonly holder: string | null;
  readonly waiters: number;
  readonly longestWaitMs: number;
}

/** A key whose last backend has failed. Instants are ISO-8601 UTC strings. */
export interface FailingKey {
  readonly namespace: string;
  readonly name: string;
  /** How many of its backends have failed one after another. */
  readonly failures: number;
  readonly since: string;
  readonly failedAt: string;
  /** The last one that failed. */
  readonly backendId: string;
  readonly reason: TerminationReason | null;
  /** As a shell reports it: 128 + n for signal n. */
  readonly exitCode: number | null;
}

/** Something that an operator should look at now. */
export interface HealthConcern {
  readonly kind:
    | 'hold_off'
    | 'clock_jump'
    | 'reaper_late'
    | 'events_late'
    | 'no_drone_ready'
    | 'drone_unreachable'
    | 'drone_lost'
    | 'renewals_refused'
    | 'crash_loops'
    | 'callbacks_failing'
    | 'expiring';
  readonly tone: 'bad' | 'warn';
  /** Since when, ISO-8601; null where that is not recorded. */
  readonly since: string | null;
  /** Of how many drones, renewals, keys, callbacks or grants it is. */
  readonly count: number;
  /** The drone, if it is of one. */
  readonly droneId: string | null;
  /** The face of expiring grants; null for anything else. */
  readonly face: Face | null;
}

/** Whether the system needs attention at this moment. Nothing of it depends on the window. */
export interface SystemHealth {
  /** The worst first; empty when the system is healthy. */
  readonly concerns: readonly HealthConcern[];
  /** Since when it is healthy, or needs attention; null where nobody watched, or it has just changed. */
  readonly since: string | null;
  /** The time over which `refused` and `renewals` are counted. */
  readonly judgedMs: number;
  readonly renewals: number;
  readonly refused: number;
}

/** The health of the system: what an operator sees first. */
export interface StatsOverview {
  /** When `series` and `totals` were read. Answers are kept for two seconds at least. */
  readonly asOf: string;
  /** When everything else was counted: on large tables up to ten times as long ago as that takes. */
  readonly countedAt: string;
  readonly datacenter: string;
  readonly health: SystemHealth;
  readonly windowMinutes: number;
  /** The length of one step of `series`. */
  readonly stepMs: number;
  readonly faces: Record<Face, FaceCounts>;
  readonly drones: {
    readonly total: number;
    readonly ready: number;
    readonly draining: number;
    /** Told to stop, with nothing left of it. */
    readonly stopped: number;
    /** Registered, and silent for longer than a heartbeat may take. */
    readonly stale: number;
    readonly lost: number;
  };
  /** Backends that have not terminated, by status. */
  readonly backends: Partial<Record<BackendStatus, number>>;
  /** How late the reaper is: the age of the oldest expiry that it has not recorded, or 0. */
  readonly reaperLagMs: number;
  /** How far the event stream is behind, and the transaction that it waits for. */
  readonly eventLag: EventLag;
  /** Callbacks of expired leases that have failed and are tried again; 10,000 stands for more. */
  readonly failingCallbacks: number;
  /** One point for each step of the window, oldest first, empty steps included. */
  readonly series: StatsPoint[];
  /** The totals of the window. */
  readonly totals: Omit<StatsPoint, 'at'>;
  /** The totals of the time before, which is as long; null for windows of more than half a day, of which it is not kept. */
  readonly before: Omit<StatsPoint, 'at'> | null;
  /** At most ten, most waited for first. */
  readonly contended: ContendedResource[];
  /** At most ten keys whose last backend has failed within an hour, the latest failure first. */
  readonly failing: FailingKey[];
  /** The hold-off of a restored database, which grants nothing. Null while grants are made. */
  readonly holdOff: HoldOffView | null;
  /** The latest step of the database's clock within a day; null without one. */
  readonly clockJump: ClockJumpView | null;
}

export interface StatsService {
  overview(input: { windowMinutes: number }): Promise<StatsOverview>;
  /** Judges the present, and records since when it is so. */
  judge(): Promise<void>;
}

/** What happened in one step of time, over all faces. */
export interface StatsStep extends Omit<
  StatsPoint,
  'at' | `${'wait' | 'handover'}MsP${'50' | '99'}`
> {
  /** The step's beginning, as epoch milliseconds of the database. */
  readonly at: number;
  readonly waits: readonly number[];
  readonly handovers: readonly number[];
}
