/**
 * The socket between an agent and its warden, with the rules of `AgentServer` and `SocketWardenLink`: the
 * newest agent in command is obeyed, and a request without a reply in time ends the connection.
 */
import {
  StartFailed,
  WardenLost,
  type WardenLink,
  type WardenListener,
} from '../../../apps/drone/src/agent/warden-link.ts';
import type {
  BackendSnapshot,
  ExtendRequest,
  StartRequest,
  StopRequest,
  WardenIdentity,
  WarmEnd,
  WarmStart,
} from '../../../apps/drone/src/warden/protocol.ts';
import { StartRefused } from '../../../apps/drone/src/warden/warden.ts';
import type { Process } from '../engine/process.ts';
import type { World } from '../engine/world.ts';
import type { Commander, WardenHost } from './warden-host.ts';

const TRAVEL_MS = 0.3;
const START_MS_MAX = 60_000;

export interface LocalLinkOptions {
  readonly world: World;
  readonly agent: Process;
  readonly host: WardenHost;
  readonly listener: WardenListener;
  readonly replyTimeoutMs: () => number;
}

/** A warden listens and does not reply. */
export class WardenSilent extends WardenLost {}

export class LocalLink implements WardenLink, Commander {
  readonly identity: WardenIdentity;
  readonly #options: LocalLinkOptions;
  readonly #waiting = new Set<(error: Error) => void>();
  readonly #incarnation: number;
  #isWatched = true;
  #isOpen = true;

  private constructor(options: LocalLinkOptions) {
    this.#options = options;
    this.identity = options.host.identity;
    this.#incarnation = options.agent.incarnation;
  }

  /** @throws {WardenSilent}, {@link WardenLost}. */
  static async connect(options: LocalLinkOptions): Promise<LocalLink> {
    if (!options.host.process.isUp) throw new WardenLost('no warden listens');
    const link = new LocalLink({ ...options });
    link.#isWatched = false;
    try {
      await link.#ask(() => Promise.resolve());
    } catch {
      throw new WardenSilent('the warden does not answer');
    }
    link.#isWatched = true;
    return link;
  }

  takeCommand(): Promise<void> {
    const { host, world } = this.#options;
    return this.#ask(() => {
      if (host.commander !== this) {
        host.commander?.superseded();
        host.commander = this;
        if (!world.has('launch-outlives-agent')) host.warden.cancelLaunches();
      }
      return Promise.resolve();
    });
  }

  start(request: StartRequest): Promise<BackendSnapshot> {
    const untilSoftMs = request.softAtMs - this.#options.agent.machine.nowMs();
    const moreMs = Math.min(Math.max(untilSoftMs, 0), START_MS_MAX);
    return this.#command(() => this.#options.host.warden.start(request), moreMs);
  }

  warm(request: WarmStart): Promise<{ claimFile: string }> {
    return this.#command(() => this.#options.host.warden.warm(request), START_MS_MAX);
  }

  cool(warmId: string): Promise<boolean> {
    return this.#command(() => this.#options.host.warden.cool(warmId));
  }

  extend(items: readonly ExtendRequest[]): Promise<(string | null)[]> {
    return this.#command(() => this.#options.host.warden.extend(items));
  }

  stop(stop: StopRequest): Promise<boolean> {
    return this.#command(() => this.#options.host.warden.stop(stop));
  }

  async note(backendId: string, meta: unknown): Promise<void> {
    await this.#command(() => this.#options.host.warden.note(backendId, meta));
  }

  alive(): Promise<string[]> {
    return this.#command(() => this.#options.host.warden.aliveIds());
  }

  list(): Promise<BackendSnapshot[]> {
    return this.#command(() => this.#options.host.warden.list());
  }

  async forget(backendId: string): Promise<void> {
    await this.#command(() => this.#options.host.warden.forget(backendId));
  }

  async shutdown(): Promise<void> {
    await this.#command(() => this.#options.host.warden.shutdown());
  }

  close(): void {
    this.#isWatched = false;
    this.#isOpen = false;
    const { host } = this.#options;
    if (host.commander !== this) return;
    host.commander = undefined;
    // The warden finds the connection ended.
    if (host.process.isUp) host.warden.coolAll();
  }

  changed(backend: BackendSnapshot): void {
    this.#tell(() => this.#options.listener.changed(backend));
  }

  cooled(end: WarmEnd): void {
    this.#tell(() => this.#options.listener.cooled(end));
  }

  superseded(): void {
    this.#tell(() => {
      this.close();
      this.#options.listener.superseded();
    });
  }

  /** The connection is gone: the warden is dead, or does not reply. */
  end(): void {
    this.#isOpen = false;
    for (const fail of [...this.#waiting]) fail(new WardenLost('the warden is gone'));
    if (!this.#isWatched) return;
    this.#isWatched = false;
    this.#options.listener.lost();
  }

  #tell(fn: () => void): void {
    const { world, agent } = this.#options;
    if (agent.incarnation !== this.#incarnation) return;
    world.in(TRAVEL_MS, agent, () => {
      if (this.#isOpen) fn();
    });
  }

  #command<T>(carryOut: () => T | Promise<T>, moreMs = 0): Promise<T> {
    const { host } = this.#options;
    return this.#ask(() => {
      if (host.commander !== this) throw new WardenLost('superseded');
      return carryOut();
    }, moreMs);
  }

  #ask<T>(carryOut: () => T | Promise<T>, moreMs = 0): Promise<T> {
    const { world, agent, host, replyTimeoutMs } = this.#options;
    if (!this.#isOpen) return Promise.reject(new WardenLost('the warden is gone'));
    return new Promise((resolve, reject) => {
      const done = (settle: () => void): void => {
        timer.isCancelled = true;
        this.#waiting.delete(fail);
        settle();
      };
      const fail = (error: Error): void => done(() => reject(error));
      const timer = agent.after(replyTimeoutMs() + moreMs, () => this.end());
      this.#waiting.add(fail);
      const reply = (settle: () => void): void => this.#tell(() => done(settle));
      world.in(TRAVEL_MS, host.process, () => {
        void Promise.resolve()
          .then(carryOut)
          .then(
            (value) => reply(() => resolve(value)),
            (error: unknown) => reply(() => reject(replied(error))),
          );
      });
    });
  }
}

function replied(error: unknown): Error {
  if (error instanceof StartRefused) return new StartFailed(error.message);
  return error instanceof WardenLost ? error : new StartFailed(`start_failed: ${String(error)}`);
}
