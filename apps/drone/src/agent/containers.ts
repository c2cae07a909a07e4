/**
 * The agent's part of containers: images, what the engine is asked to make, and whether the engine
 * answers. Starting and ending them is the warden's.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { bytesOf } from '@leasehold/api/drone-file';
import type { ContainerConfig, DroneConfig, Log } from '../config.ts';
import { Engine, EngineRefused, EngineSilent, type RegistryLogin } from '../engine.ts';
import { GATE_PLACE, gateOf } from '../warden/container-guard.ts';
import { killContainer } from '../warden/processes.ts';
import type { BackendSnapshot, ContainerRequest } from '../warden/protocol.ts';
import { StartFailed } from './warden-link.ts';
import { leaseholdEnv, type Work, type WorkOrder } from './work.ts';

type Environment = Readonly<Record<string, string | undefined>>;
type ImageWish = Pick<ContainerConfig, 'image' | 'pull' | 'pullTimeoutMs' | 'credentials'>;

/** The images of an engine. Backends that wait for the same image share one pull. */
class Images {
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
      // Whatever the engine answers: it is this backend that does not start, and no other one ends.
      if (error instanceof EngineSilent || error instanceof EngineRefused) {
        throw new StartFailed(error.message, { cause: error });
      }
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

/** How often the engine is asked whether it is there, and how long it may take to answer. */
const LOOK_MS = 5_000;
const LOOK_ANSWER_MS_MAX = 2_000;
const LEFTOVERS_RETRY_MS = 1_000;

/** What the drone reports about its engine. */
interface EngineStatus {
  /** Why it cannot be used; null when it answers. */
  readonly problem: string | null;
}

interface ContainersOptions {
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
  /** A file that is there once a container may have been started. */
  readonly #marker: string;
  #clearCount = 0;
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
    this.#marker = path.join(stateDir, 'containers');
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

  workOf(program: ContainerConfig): Work {
    return {
      refusal: undefined,
      prepare: async (signal) => {
        await this.#untilCleared(signal);
        this.#mark();
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
    // Those of programs that the drone does not offer any more, too.
    if (!this.#isUsed && !existsSync(this.#marker)) return;
    if (this.#isUsed) this.#mark();
    const ids = new Set(known.map(({ backendId }) => backendId));
    this.#clearCount += 1;
    this.#cleared = this.#untilClear(ids, this.#clearCount);
  }

  /** Best effort: on a full disk nothing new is started anyway. */
  #mark(): void {
    try {
      writeFileSync(this.#marker, '');
    } catch (error) {
      this.#log.warn({ err: error }, 'it could not be written down that containers are used');
    }
  }

  /** Gives way to a later one, which knows what was started since. */
  async #untilClear(known: ReadonlySet<string>, turn: number): Promise<void> {
    const isOver = (): boolean => this.#isClosed || turn !== this.#clearCount;
    while (!isOver()) {
      try {
        const installation = installationOf(this.#place.stateDir);
        const found = await this.#engine.labelled(LABELS.installation, installation);
        for (const { containerId, labels } of found) {
          const backendId = labels[LABELS.backend] ?? '';
          if (isOver()) return;
          if (known.has(backendId)) continue;
          this.#log.warn({ backendId, containerId }, 'removing a container that nobody knows');
          killContainer(containerId, undefined);
          await this.#engine.remove(containerId);
        }
        if (!this.#isUsed && known.size === 0) rmSync(this.#marker, { force: true });
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
    for (let cleared: Promise<void> | undefined; cleared !== this.#cleared;) {
      cleared = this.#cleared;
      await Promise.race([cleared, late]);
    }
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

/** Labels by which people and programs find the containers of Leasehold. */
const LABELS = {
  installation: 'leasehold.installation',
  drone: 'leasehold.drone',
  program: 'leasehold.program',
  key: 'leasehold.key',
  keyId: 'leasehold.key-id',
  backend: 'leasehold.backend',
  fencingToken: 'leasehold.fencing-token',
} as const;

const NANO = 1_000_000_000;
const TEMPORARY = '/tmp';

/** What is the same for all containers of a drone. */
interface ContainerPlace {
  readonly droneId: string;
  readonly stateDir: string;
  readonly socket: string;
  /** The address at which published ports listen. */
  readonly host: string;
}

/** One state folder is one installation's: drones of the same id with other folders are other drones. */
export function installationOf(stateDir: string): string {
  return createHash('sha256').update(`leasehold.state\0${stateDir}`).digest('hex').slice(0, 16);
}

/**
 * What the engine is asked to make for a backend. By default a container has no capabilities, gains no
 * privileges, and has limits of memory, processors and processes.
 */
export function containerRequest(
  program: ContainerConfig,
  imageId: string,
  { order, place }: { order: WorkOrder; place: ContainerPlace },
): ContainerRequest {
  const { identity, plan, keyId } = order;
  const args = [...program.args, ...plan.args];
  return {
    engine: place.socket,
    name: `leasehold-${identity.backendId}`,
    keyId,
    memory: program.memory,
    create: {
      Image: imageId,
      ...(program.command === undefined ? {} : { Entrypoint: [program.command] }),
      ...(args.length === 0 ? {} : { Cmd: args }),
      ...(program.cwd === undefined ? {} : { WorkingDir: program.cwd }),
      ...(program.user === undefined ? {} : { User: program.user }),
      Env: environmentOf(program, order),
      Labels: labelsOf(program, order, place),
      StopSignal: program.stopSignal,
      ...(program.network === 'bridge'
        ? { ExposedPorts: { [portInside(program, order)]: {} } }
        : {}),
      HostConfig: {
        ...networkOf(program, order, place),
        ...limitsOf(program),
        CapDrop: ['ALL'],
        CapAdd: program.capabilities,
        SecurityOpt: ['no-new-privileges'],
        Privileged: false,
        ReadonlyRootfs: program.readOnly,
        Tmpfs: program.readOnly ? { [TEMPORARY]: 'rw,nosuid,nodev,mode=1777' } : {},
        Init: program.init,
        // Only the warden decides whether a backend runs.
        RestartPolicy: { Name: 'no' },
        AutoRemove: false,
        // The warden collects the output, and bounds it.
        LogConfig: { Type: 'none' },
        Mounts: [
          {
            Type: 'bind',
            Source: gateOf(place.stateDir, identity.backendId),
            Target: GATE_PLACE,
            ReadOnly: true,
          },
        ],
      },
    },
  };
}

function environmentOf(program: ContainerConfig, order: WorkOrder): string[] {
  const { identity, plan, keyId, port } = order;
  const inside = program.network === 'bridge' ? (program.containerPort ?? port) : port;
  const { fencingToken, backendId } = identity;
  const variables = {
    ...program.env,
    ...plan.env,
    ...leaseholdEnv({
      keyName: plan.key.name,
      keyId,
      fencingToken,
      backendId,
      port: inside,
      portEnv: program.portEnv,
    }),
  };
  return Object.entries(variables).map(([name, value]) => `${name}=${value}`);
}

function labelsOf(
  program: ContainerConfig,
  { identity, plan, keyId }: WorkOrder,
  place: ContainerPlace,
): Record<string, string> {
  return {
    ...program.labels,
    [LABELS.installation]: installationOf(place.stateDir),
    [LABELS.drone]: place.droneId,
    [LABELS.program]: identity.programName,
    [LABELS.key]: plan.key.name,
    [LABELS.keyId]: keyId,
    [LABELS.backend]: identity.backendId,
    [LABELS.fencingToken]: identity.fencingToken,
  };
}

function portInside({ containerPort }: ContainerConfig, { port }: WorkOrder): string {
  return `${String(containerPort ?? port)}/tcp`;
}

function networkOf(
  program: ContainerConfig,
  order: WorkOrder,
  { host }: ContainerPlace,
): Record<string, unknown> {
  if (program.network === 'host') return { NetworkMode: 'host' };
  return {
    NetworkMode: 'bridge',
    PortBindings: {
      [portInside(program, order)]: [{ HostIp: host, HostPort: String(order.port) }],
    },
  };
}

function limitsOf({ memory, cpus, pids, ulimits }: ContainerConfig): Record<string, unknown> {
  const bytes = bytesOf(memory);
  return {
    Memory: bytes,
    // With the memory's own size: nothing is swapped out beyond it.
    MemorySwap: bytes,
    NanoCpus: Math.round(cpus * NANO),
    PidsLimit: pids,
    Ulimits: Object.entries(ulimits).map(([Name, limit]) =>
      typeof limit === 'number'
        ? { Name, Soft: limit, Hard: limit }
        : { Name, Soft: limit.soft, Hard: limit.hard },
    ),
  };
}
