/**
 * The agent's part of containers: images, what the engine is asked to make, and whether the engine
 * answers. Starting and ending them is the warden's.
 */
import { createHash } from 'node:crypto';
import { bytesOf } from '@leasehold/api/drone-file';
import type { ContainerConfig, DroneConfig, Log } from '../config.ts';
import { Engine } from '../engine.ts';
import { GATE_PLACE, gateOf } from '../warden/container-guard.ts';
import { killContainer } from '../warden/processes.ts';
import type { BackendSnapshot, ContainerRequest } from '../warden/protocol.ts';
import { Images } from './images.ts';
import { StartFailed } from './warden-link.ts';
import { leaseholdEnv, type Work, type WorkOrder } from './work.ts';

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
      ...{ keyName: plan.key.name, keyId, fencingToken, backendId },
      ...{ port: inside, portEnv: program.portEnv },
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
