import type { ContainerConfig } from '../../config.ts';
import { EngineRefused, EngineSilent, type Engine } from '../../engine/engine.ts';
import { StartFailed } from '../warden-link/warden-link.ts';
import { registryLogin, registryOf } from './registry-login.ts';

type ImageWish = Pick<ContainerConfig, 'image' | 'pull' | 'pullTimeoutMs' | 'credentials'>;

/** The images of an engine. Backends that wait for the same image share one pull. */
export class Images {
  readonly #engine: Engine;
  readonly #environment: Readonly<Record<string, string | undefined>>;
  readonly #pulls = new Map<string, Promise<void>>();

  constructor(engine: Engine, environment: Readonly<Record<string, string | undefined>>) {
    this.#engine = engine;
    this.#environment = environment;
  }

  /**
   * The id of a program's image, which is there then.
   * @throws {StartFailed} with what is wrong: the engine, the registry, the login or the name.
   */
  async idOf(wish: ImageWish, signal: AbortSignal): Promise<string> {
    try {
      if (wish.pull !== 'always') {
        const found = await this.#engine.imageId(wish.image);
        if (found !== undefined) return found;
        if (wish.pull === 'never') {
          throw new StartFailed(
            `the image ${wish.image} is not on this machine, and is never pulled`,
          );
        }
      }
      await unlessAborted(this.#pull(wish), signal);
      const pulled = await this.#engine.imageId(wish.image);
      if (pulled !== undefined) return pulled;
      throw new StartFailed(`the image ${wish.image} was pulled, and is not there`);
    } catch (error) {
      if (error instanceof EngineSilent) throw new StartFailed(error.message, { cause: error });
      throw error;
    }
  }

  #pull(wish: ImageWish): Promise<void> {
    const { image } = wish;
    const running = this.#pulls.get(image);
    if (running !== undefined) return running;
    const pull = this.#pullNow(wish).finally(() => this.#pulls.delete(image));
    this.#pulls.set(image, pull);
    return pull;
  }

  async #pullNow(wish: ImageWish): Promise<void> {
    const { image, pullTimeoutMs } = wish;
    const login = registryLogin(wish, this.#environment);
    const signal = AbortSignal.timeout(pullTimeoutMs);
    try {
      await this.#engine.pull(image, { login, signal });
    } catch (error) {
      if (signal.aborted) {
        throw new StartFailed(
          `the image ${image} was not pulled within ${String(pullTimeoutMs)} ms`,
          { cause: error },
        );
      }
      if (!(error instanceof EngineRefused)) throw error;
      throw new StartFailed(`the image ${image} cannot be pulled: ${reasonOf(error, wish)}`, {
        cause: error,
      });
    }
  }
}

const LOGIN_REFUSED = /unauthorized|authentication required|denied|\b401\b|\b403\b/iu;

/** The engine's own words, after what they usually mean. */
function reasonOf({ message }: EngineRefused, { image, credentials }: ImageWish): string {
  if (!LOGIN_REFUSED.test(message)) return message;
  return credentials === undefined
    ? `${registryOf(image)} asks for a login, and \`credentials\` is not set (${message})`
    : `${registryOf(image)} refuses the login (${message})`;
}

/** @throws {StartFailed} when nobody waits for it any more. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new StartFailed('it is not wanted any more')), {
      once: true,
    });
  });
  return Promise.race([work, aborted]);
}
