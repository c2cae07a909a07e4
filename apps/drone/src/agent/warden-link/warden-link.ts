import type {
  BackendSnapshot,
  ExtendRequest,
  StartRequest,
  StopRequest,
  WardenIdentity,
} from '../../warden/link/protocol.ts';

/**
 * The agent's hold on its warden. The processes behind it may be simulated: nothing here says that
 * they are real.
 *
 * A new link only looks: it knows the warden's identity. Everything else works once
 * {@link takeCommand} has resolved, which ends the command of any other agent.
 *
 * Every call may throw {@link WardenLost}: the connection is gone, and whether the request was
 * carried out is unknown.
 */
export interface WardenLink {
  readonly identity: WardenIdentity;
  takeCommand(): Promise<void>;
  /** @throws {StartFailed} when nothing was started, and nothing will be. */
  start(request: StartRequest): Promise<BackendSnapshot>;
  /** What is wrong with each item, in order; null where nothing is. */
  extend(items: readonly ExtendRequest[]): Promise<(string | null)[]>;
  /** Whether the warden knows the backend. */
  stop(stop: StopRequest): Promise<boolean>;
  note(backendId: string, meta: unknown): Promise<void>;
  /** The ids of the backends of which processes are left. */
  alive(): Promise<string[]>;
  list(): Promise<BackendSnapshot[]>;
  forget(backendId: string): Promise<void>;
  /** Kills whatever is left, and ends the warden; resolves when it has. */
  shutdown(): Promise<void>;
  /** Disconnects from the warden and leaves its backends to it. */
  close(): void;
}

export interface WardenListener {
  changed(backend: BackendSnapshot): void;
  /** A newer agent commands the warden: this one must end. */
  superseded(): void;
  /** The connection has ended and nobody closed it: the warden is dead, or it does not answer. */
  lost(): void;
}

/** Where an agent finds its warden. */
export interface WardenSource {
  /**
   * Connects to the warden that runs, or starts one.
   * @throws {WardenLost} when none comes up.
   */
  supply(listener: WardenListener, needs: SupplyNeeds): Promise<WardenLink>;
  /** Kills a warden that does not answer, and so its backends. */
  end(pid: number): void;
}

export interface SupplyNeeds {
  readonly replyTimeoutMs: () => number;
  /** Whether a warden that runs and does not answer may be ended now; if not, it is tried again. */
  readonly mayEndSilent: (clockId: string) => Promise<boolean>;
}

/** The warden cannot be reached any more. */
export class WardenLost extends Error {
  override readonly name = 'WardenLost';
}

/** The warden did not start a backend. */
export class StartFailed extends Error {
  override readonly name = 'StartFailed';
}
