import { readFileSync } from 'node:fs';
import type { ContainerConfig } from '../config.ts';
import { EngineRefused, EngineSilent, type Engine, type RegistryLogin } from '../engine.ts';
import { StartFailed } from './warden-link.ts';

type Environment = Readonly<Record<string, string | undefined>>;
type ImageWish = Pick<ContainerConfig, 'image' | 'pull' | 'pullTimeoutMs' | 'credentials'>;

/** The images of an engine. Backends that wait for the same image share one pull. */
export class Images {
  readonly #engine: Engine;
  readonly #environment: Environment;
  readonly #pulls = new Map<string, Promise<void>>();

  constructor(engine: Engine, environment: Environment) {
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

const HUB = 'docker.io';
/** As the file of logins names Docker's own registry. */
const HUB_IN_FILE = 'https://index.docker.io/v1/';

/**
 * The login for a registry, from a file or a variable of the drone: `user:password`, or the file that
 * `docker login` and `podman login` write. Read at each pull, so that it may be renewed. It is in no
 * log, error or event.
 * @throws {StartFailed} naming where the login was looked for.
 */
export function registryLogin(
  { credentials, image }: Pick<ContainerConfig, 'credentials' | 'image'>,
  environment: Environment,
): RegistryLogin | undefined {
  if (credentials === undefined) return undefined;
  const place = 'file' in credentials ? credentials.file : `the variable ${credentials.env}`;
  const text = ('file' in credentials ? readOf(place) : environment[credentials.env])?.trim();
  if (text === undefined || text === '') {
    throw new StartFailed(`the credentials for ${image} cannot be read from ${place}`);
  }
  const login = text.startsWith('{') ? loginIn(text, registryOf(image)) : pairOf(text);
  if (login === undefined) {
    throw new StartFailed(
      `${place} has no credentials for ${registryOf(image)}: it must contain user:password, or the file that docker login writes`,
    );
  }
  return login;
}

/** The registry in the name of an image. */
export function registryOf(image: string): string {
  const [first = '', ...rest] = image.split('/');
  const isRegistry = rest.length > 0 && (/[.:]/u.test(first) || first === 'localhost');
  return isRegistry ? first : HUB;
}

function loginIn(text: string, registry: string): RegistryLogin | undefined {
  const logins = fieldsOf(fieldsOf(jsonOf(text))?.['auths']);
  const login = fieldsOf(
    logins?.[registry] ?? (registry === HUB ? logins?.[HUB_IN_FILE] : undefined),
  );
  const { auth, identitytoken } = login ?? {};
  if (typeof identitytoken === 'string') return { identitytoken };
  return typeof auth === 'string'
    ? pairOf(Buffer.from(auth, 'base64').toString('utf8'))
    : undefined;
}

function pairOf(text: string): RegistryLogin | undefined {
  const at = text.indexOf(':');
  return at < 1 ? undefined : { username: text.slice(0, at), password: text.slice(at + 1) };
}

function readOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === 'object' && value !== null ? { ...value } : undefined;
}
