/**
 * The agent's part of containers: images, what the engine is asked to make, and whether the engine
 * answers. Starting and ending them is the warden's.
 */
import type { ContainerConfig, DroneConfig } from '../../config.ts';
import { Engine } from '../../engine/engine.ts';
import type { BackendSnapshot } from '../../warden/link/protocol.ts';
import { killContainer } from '../../warden/container/container-processes.ts';
import type { Work } from '../backend/run-types.ts';
import type { Log } from '../log.ts';
import { StartFailed } from '../warden-link/warden-link.ts';
import {
  containerRequest,
  installationOf,
  LABELS,
  type ContainerPlace,
} from './container-request.ts';
import { Images } from './images.ts';

/** How often the engine is asked whether it is there, and how long it may take to answer. */
const LOOK_MS = 5_000;
const LOOK_ANSWER_MS_MAX = 2_000;
const LEFTOVERS_RETRY_MS = 1_000;

/** What the drone reports about its engine. */
export interface EngineStatus {
  /** Why it cannot be used; null when it answers. */
  readonly problem: string | null;
}

export interface ContainersOptions {
  readonly config: Pick<DroneConfig, 'droneId' | 'stateDir' | 'host' | 'engine' | 'programs'>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly log: Log;
}

/** See the top of this file. */
export class Containers {
  readonly #engine: Engine;
  readonly #images: Images;
  readonly #place: ContainerPlace;
  readonly #log: Log;
  readonly #isUsed: boolean;
  #status: EngineStatus | undefined;
  #looking: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Resolves when no container of an earlier warden is left. */
  #cleared: Promise<void> = Promise.resolve();

  constructor({ config, environment, log }: ContainersOptions) {
    const { droneId, stateDir, host, engine, programs } = config;
    this.#engine = new Engine(engine.socket);
    this.#images = new Images(this.#engine, environment);
    this.#place = { droneId, stateDir, host, socket: engine.socket };
    this.#log = log;
    this.#isUsed = Object.values(programs).some(({ kind }) => kind === 'container');
  }

  /** Undefined for a drone without containers, and before the engine was first asked. */
  get status(): EngineStatus | undefined {
    return this.#status;
  }

  /** Asks the engine from now on whether it is there, if any program needs it. */
  start(): void {
    if (this.#isUsed) void this.#look();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#looking);
  }

  workOf(program: ContainerConfig, hasWardenContainers: boolean): Work {
    return {
      refusal: hasWardenContainers
        ? undefined
        : 'the warden is of an earlier version and runs no containers: drain the drone, end its agent with SIGTERM, and start it again',
      prepare: async (signal) => {
        await this.#untilCleared(signal);
        const imageId = await this.#images.idOf(program, signal);
        return {
          imageId,
          fieldsOf: (order) => ({
            container: containerRequest(program, imageId, { order, place: this.#place }),
          }),
        };
      },
    };
  }

  /**
   * Ends and removes the containers of this drone that its warden does not know: those of a warden that
   * was killed. No container is started before they are gone.
   */
  clear(known: readonly Pick<BackendSnapshot, 'backendId'>[]): void {
    if (!this.#isUsed) return;
    const ids = new Set(known.map(({ backendId }) => backendId));
    this.#cleared = this.#untilClear(ids);
  }

  async #untilClear(known: ReadonlySet<string>): Promise<void> {
    while (!this.#isClosed) {
      try {
        const installation = installationOf(this.#place.stateDir);
        const found = await this.#engine.labelled(LABELS.installation, installation);
        for (const { containerId, labels } of found) {
          const backendId = labels[LABELS.backend] ?? '';
          if (known.has(backendId)) continue;
          this.#log.warn({ backendId, containerId }, 'removing a container that nobody knows');
          killContainer(containerId, undefined);
          await this.#engine.remove(containerId);
        }
        return;
      } catch (error) {
        this.#log.debug({ err: error }, 'the engine did not list or remove containers');
        await new Promise((resolve) => setTimeout(resolve, LEFTOVERS_RETRY_MS).unref());
      }
    }
  }

  /** @throws {StartFailed} when the engine does not answer that nothing is left. */
  async #untilCleared(signal: AbortSignal): Promise<void> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(LOOK_MS)]);
    const late = new Promise<never>((_resolve, reject) => {
      limit.addEventListener('abort', () =>
        reject(
          new StartFailed(
            this.#status?.problem ?? 'containers of an earlier warden are not removed yet',
          ),
        ),
      );
    });
    await Promise.race([this.#cleared, late]);
  }

  async #look(): Promise<void> {
    const before = this.#status;
    const problem = await this.#engine.ping(LOOK_ANSWER_MS_MAX).then(
      () => null,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
    this.#status = { problem };
    if (before?.problem !== problem) {
      if (problem === null) this.#log.info({}, 'the container engine answers');
      else this.#log.error({ problem }, 'containers cannot be started');
    }
    if (!this.#isClosed) this.#looking = setTimeout(() => void this.#look(), LOOK_MS).unref();
  }
}
