import { Engine } from '../../engine/engine.ts';

const RETRY_MS = 1_000;

/** The engines that the warden has to do with, and the containers that they are yet to remove. */
export class ContainerRemovals {
  readonly #engines = new Map<string, Engine>();
  readonly #left = new Set<string>();

  /** Whether nothing is left to remove. */
  get isDone(): boolean {
    return this.#left.size === 0;
  }

  engineAt(socket: string): Engine {
    const engine = this.#engines.get(socket) ?? new Engine(socket);
    this.#engines.set(socket, engine);
    return engine;
  }

  /** Removes a container that has ended, however often the engine has to be asked. */
  add(engine: Engine, containerId: string): void {
    if (this.#left.has(containerId)) return;
    this.#left.add(containerId);
    void this.#remove(engine, containerId);
  }

  async #remove(engine: Engine, containerId: string): Promise<void> {
    try {
      await engine.remove(containerId);
      this.#left.delete(containerId);
    } catch {
      setTimeout(() => void this.#remove(engine, containerId), RETRY_MS).unref();
    }
  }
}
