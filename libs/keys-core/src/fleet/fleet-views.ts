import type { BackendStatus, TerminationReason } from '../kernel/backends.ts';
import type { DroneIsolation, DroneStatus, ProgramTimes } from '../kernel/drones.ts';

/** A program as a drone offers it: what a request may pass to it, and never its command line. */
export interface OfferedProgram extends ProgramTimes {
  readonly name: string;
  readonly allowArgs: boolean;
  /** Names of environment variables that a request may set. */
  readonly allowEnv: readonly string[];
  /** The image of a program that is a container; left out for a command of the machine. */
  readonly image?: string | undefined;
}

/** The container engine of a drone, as it reported it last. */
export interface DroneEngine {
  /** Why it cannot be used; null when it answers. */
  readonly problem: string | null;
}

/** How much of a drone's machine is in use, by all that runs there. */
export interface MachineLoad {
  /** From 0 to 1, of all processors together. */
  readonly cpuShare: number;
  readonly processors: number;
  readonly memoryUsedBytes: number;
  readonly memoryBytes: number;
  /** Of the disk that the drone's state folder is on. */
  readonly diskUsedBytes: number;
  readonly diskBytes: number;
}

/** What one backend uses, all of its processes together. */
export interface BackendUsage {
  readonly memoryBytes: number;
  /** Processors in use; null until the drone has looked twice. */
  readonly cpus: number | null;
}

/** The processes of a program that run without a key, so that a connect need not wait for their start. */
export interface WarmProcesses {
  readonly program: string;
  readonly count: number;
  /** As the drone's configuration has it. */
  readonly wanted: number;
  /** What was wrong with the last that failed; null once the present ones have been well for a while. */
  readonly problem: string | null;
}

/** A drone as operators see it. Instants are ISO-8601 UTC strings. */
export interface DroneView {
  readonly droneId: string;
  readonly datacenter: string;
  readonly status: DroneStatus;
  readonly draining: boolean;
  readonly lostAt: string | null;
  /** When the drone said goodbye; null unless it has, and has not come back. */
  readonly stoppedAt: string | null;
  readonly version: string;
  readonly programs: readonly OfferedProgram[];
  readonly capacity: number;
  /** Null if the drone does not report it: it is of an earlier version. */
  readonly isolation: DroneIsolation | null;
  /** Backends that have not terminated. */
  readonly backendCount: number;
  /** What the drone itself reported last; null until the first heartbeat of the present clock. */
  readonly load: { readonly backends: number } | null;
  /** How many of its backends have not terminated, of each program that has some. */
  readonly programBackends: Readonly<Record<string, number>>;
  /** Null unless it is connected and reports it. */
  readonly machine: MachineLoad | null;
  /** Null for a drone without programs that are containers, and before it has asked its engine. */
  readonly engine: DroneEngine | null;
  /** Of each program that should have warm processes; none unless it is connected and reports some. */
  readonly warm: readonly WarmProcesses[];
  /** The round-trip time of its heartbeats, as it measured last; null before that. */
  readonly roundTripMs: number | null;
  /** Whether a heartbeat, or without one the session, came within three intervals; false when lost. */
  readonly isConnected: boolean;
  readonly session: number;
  readonly clockId: string;
  readonly registeredAt: string;
  /** Null until the first heartbeat of the present clock. */
  readonly heartbeatAt: string | null;
  readonly heartbeatAgeMs: number | null;
  readonly asOf: string;
}

/** What is left of a drone that was removed. */
export interface RemovedDrone {
  /** Tokens in force that may register its id again, as a new drone; some of them when they are many. */
  readonly tokens: readonly { readonly tokenId: string; readonly name: string }[];
}

/** A backend as operators see it. Its arguments and environment may hold secrets: not shown. */
export interface BackendView {
  readonly backendId: string;
  readonly status: BackendStatus;
  readonly reason: TerminationReason | null;
  readonly program: string;
  /** The image of a backend that is a container; null for a command, and before it is started. */
  readonly image: string | null;
  readonly key: { readonly name: string; readonly namespace: string; readonly tag: string };
  readonly droneId: string;
  readonly datacenter: string;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly address: string | null;
  readonly exitCode: number | null;
  readonly lifetimeLimitSeconds: number | null;
  /** After how long without a use it is stopped; null for never. */
  readonly idleStopSeconds: number | null;
  /** The last use that is known; null without idle stop. */
  readonly lastUsedAt: string | null;
  /** When it is stopped if nobody uses it before; null unless it is ready, has an idle stop, and is not stopped already. */
  readonly idleStopAt: string | null;
  /** What it used within the last minute; null when it has ended, or its drone does not report it. */
  readonly usage: BackendUsage | null;
  /** A pattern of the files on the drone's machine that its output goes to; null when the drone does not report where. */
  readonly logFiles: string | null;
  readonly createdAt: string;
  readonly statusAt: string;
}

/** A backend with every state that it was reported in, oldest first. */
export interface BackendDetail extends BackendView {
  /** Who uses it through gateways, as these have reported in the last seconds; null when none has. */
  readonly throughGateways: GatewayTraffic | null;
  /** The last lines that it wrote, if it ended without being asked to. */
  readonly output: string | null;
  readonly states: readonly BackendStateView[];
}

/** What gateways pass to one backend. */
export interface GatewayTraffic {
  /** Requests in progress and open WebSockets. */
  readonly connections: number;
  /** Users among them; one who comes through two gateways counts twice. */
  readonly users: number;
  readonly requestsPerSecond: number;
}

/** One state that a backend was reported in. `id` orders them. */
export interface BackendStateView {
  readonly id: string;
  readonly backendId: string;
  readonly status: BackendStatus;
  readonly reason: TerminationReason | null;
  readonly address: string | null;
  readonly exitCode: number | null;
  readonly detail: string | null;
  readonly at: string;
}

/** An action as it is in the outbox; the session adds its number and the action's id. */
export interface OutboxAction {
  readonly actionId: string;
  readonly backendId: string;
  readonly kind: 'spawn' | 'terminate';
  readonly payload: Readonly<Record<string, unknown>>;
}
