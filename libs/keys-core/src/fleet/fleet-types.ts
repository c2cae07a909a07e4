import type { Actor } from '../kernel/access.ts';
import type { DroneMessage, LogPage, LogRequest } from '../kernel/drones.ts';
import type { QuestionAnswer } from './sql/drone-questions.ts';
import type { Count, FilterOf, Page } from '../kernel/face-types.ts';
import type { BackendListInput, NamespaceLimits } from './sql/backends.ts';
import type { Heartbeat, SessionRef, SessionRequest } from './sql/drone-sessions.ts';
import type { DroneListInput } from './sql/drones.ts';
import type {
  BackendDetail,
  BackendStateView,
  BackendView,
  DroneView,
  OfferedProgram,
  RemovedDrone,
} from './fleet-views.ts';

/** Drones and backends. */
export interface FleetService {
  /**
   * Opens a session and yields first its number, then every action for the drone until it is
   * acknowledged. Ends when the signal aborts.
   * @throws {LeaseError} `session.superseded` when a newer session has opened.
   */
  session(request: SessionRequest, signal: AbortSignal): AsyncIterable<DroneMessage>;
  /** @throws {LeaseError} `session.superseded`. */
  heartbeat(heartbeat: Heartbeat): Promise<{ heartbeatMs: number }>;
  /** The drone stops: it is given nothing more until its next session. @throws {LeaseError} `session.superseded`. */
  goodbye(ref: SessionRef): Promise<void>;
  /** @throws {LeaseError} `session.superseded`. */
  acknowledge(ack: SessionRef & { readonly actionId: string }): Promise<{ acknowledged: boolean }>;
  /** What the drones of this datacenter offer that may take a backend now, full ones too. */
  offeredPrograms(): Promise<OfferedProgram[]>;
  listDrones(input: DroneListInput): Promise<Page<DroneView>>;
  countDrones(input: FilterOf<DroneListInput>): Promise<Count>;
  /** @throws {LeaseError} `drone.not_found`. */
  getDrone(droneId: string): Promise<DroneView>;
  /**
   * Once it has answered, the drone takes no new backend. With `stop` its backends are asked to stop, each with the
   * grace of its program; `stoppingCount` is how many. @throws {LeaseError} `drone.not_found`.
   */
  drain(
    input: DroneAct & { readonly stop?: boolean | undefined },
    actor: Actor,
  ): Promise<{ changed: boolean; backends: BackendView[]; stoppingCount: number }>;
  /** @throws {LeaseError} `drone.not_found`. */
  undrain(input: DroneAct, actor: Actor): Promise<{ changed: boolean }>;
  /**
   * Drains the drone and blocks the renewal of its keys, so that they run out.
   * @throws {LeaseError} `drone.not_found`.
   */
  markLost(input: DroneAct, actor: Actor): Promise<{ renewalsBlockedCount: number }>;
  /**
   * Forgets a drone that is not connected and runs nothing. Its history stays, and its tokens: a drone of this id may
   * register again, as a new one. @throws {LeaseError} `drone.not_found`, `drone.in_use`.
   */
  remove(input: DroneAct, actor: Actor): Promise<RemovedDrone>;
  listBackends(input: BackendListInput, limits: NamespaceLimits): Promise<Page<BackendView>>;
  countBackends(input: FilterOf<BackendListInput>, limits: NamespaceLimits): Promise<Count>;
  /** @throws {LeaseError} `backend.not_found`. */
  getBackend(backendId: string, limits: NamespaceLimits): Promise<BackendDetail>;
  /**
   * Yields every state that the backend was in, then those that follow; ends after `terminated`.
   * @throws {LeaseError} `backend.not_found`.
   */
  watchBackend(
    backendId: string,
    limits: NamespaceLimits,
    signal: AbortSignal,
  ): AsyncIterable<BackendStateView>;
  /**
   * A part of what a backend has written, from its drone. Waits for output if it is asked to and nothing is there.
   * @throws {LeaseError} `backend.not_found`, `backend.logs_unavailable`.
   */
  readLog(request: LogRequest, limits: NamespaceLimits, signal: AbortSignal): Promise<LogPage>;
  /** What a drone answers to a question. @throws {LeaseError} `session.superseded`. */
  answer(answer: QuestionAnswer): Promise<{ isWanted: boolean }>;
}

/** What an operator asks of a drone. */
export interface DroneAct {
  readonly droneId: string;
  readonly reason?: string | undefined;
}
