/**
 * An agent, put together from the product's parts as `DroneAgent` does it, without what needs a machine:
 * ports, users, isolation, and the file of the backends that were seen.
 */
import type { SpawnAction, TerminateAction } from '../../../libs/keys-core/src/kernel/drones.ts';
import type { CommandConfig, DroneConfig } from '../../../apps/drone/src/config.ts';
import { createBootClock } from '../../../libs/service-kit/src/clock.ts';
import { commandWork, type Work } from '../../../apps/drone/src/agent/work.ts';
import {
  SessionSuperseded,
  type ControllerLink,
} from '../../../apps/drone/src/agent/controller-link.ts';
import { DroneSession } from '../../../apps/drone/src/agent/drone-session.ts';
import { KeyRenewals } from '../../../apps/drone/src/agent/agent.ts';
import type { Ports } from '../../../apps/drone/src/agent/ports.ts';
import { RunBook } from '../../../apps/drone/src/agent/run-book.ts';
import type { SeenBackend, SeenBackends } from '../../../apps/drone/src/agent/seen-backends.ts';
import { WardenCommand } from '../../../apps/drone/src/agent/warden-command.ts';
import type { WardenLink, WardenSource } from '../../../apps/drone/src/agent/warden-link.ts';
import { WarmPool } from '../../../apps/drone/src/agent/warm-pool.ts';
import type { Process } from '../engine/process.ts';
import type { World } from '../engine/world.ts';

export interface AgentProcessOptions {
  readonly world: World;
  readonly process: Process;
  readonly droneId: string;
  readonly link: ControllerLink;
  readonly wardens: WardenSource;
  /** What earlier agents wrote down. */
  readonly seen: Map<string, SeenBackend>;
}

const QUIET = { debug: nothing, info: nothing, warn: nothing, error: nothing };

export class AgentProcess {
  readonly #options: AgentProcessOptions;
  readonly #session: DroneSession;
  readonly #renewals: KeyRenewals;
  readonly #book: RunBook;
  readonly #command: WardenCommand;
  readonly #pool: WarmPool;
  #commanding: Promise<void> = Promise.resolve();
  #takeActions: () => void = nothing;

  constructor(options: AgentProcessOptions) {
    const { world, process, droneId, link, wardens, seen } = options;
    this.#options = options;
    const clock = createBootClock(() => process.machine.nowMs());
    const nowMs = (): number => clock.nowMs();
    const random = world.random.fork(`${process.name} agent`);
    const log = QUIET;
    this.#session = new DroneSession({
      link,
      clock,
      log,
      load: () => ({ backends: this.#book.size, engine: undefined, machine: undefined, warm: [] }),
      onAction: (action) => void this.#act(action),
      readLog: () => Promise.reject(new Error('no controller asks')),
      takeUsage: () => undefined,
      onDraining: nothing,
      onReplaced: () => this.#end(),
    });
    const warden = (): WardenLink => this.#command.warden;
    this.#renewals = new KeyRenewals({ link, warden, nowMs, log, droneId });
    const machine = {
      log,
      ports: anyPorts(),
      lastOutput: () => Promise.resolve(undefined),
      workOf,
    };
    this.#pool = new WarmPool({
      ...machine,
      config: CONFIG,
      warden,
      nowMs,
      random: () => random.next(),
      newId: () => random.uuid(),
      runs: () => this.#book.all(),
    });
    this.#book = new RunBook({
      config: CONFIG,
      openSeen: () => seenIn(seen),
      runContext: {
        ...machine,
        warden,
        nowMs,
        random: () => random.next(),
        host: '127.0.0.1',
        // What listens on the machine that simulates decides nothing here.
        listeners: () => undefined,
      },
      reserve: (action) => this.#pool.reserve(action),
      reportContext: { link, session: this.#session, log, random: () => random.next() },
      clockId: () => this.#command.clockId,
      isStopping: () => false,
      onAdopted: nothing,
      onForgotten: nothing,
      onSpawned: (run) => this.#renewals.tick([run], nowMs()),
    });
    this.#command = this.#commandOf(wardens, log);
    clock.onTick((atMs) => {
      this.#renewals.tick(this.#book.all(), atMs);
      this.#command.tick(atMs);
      this.#pool.tick(atMs);
    });
    void this.#command.take();
  }

  #commandOf(wardens: WardenSource, log: typeof QUIET): WardenCommand {
    return new WardenCommand({
      wardens,
      log,
      examine: nothing,
      runs: () => this.#book.all(),
      openSession: (clockId) => this.#openSession(clockId),
      accepted: () => this.#session.ref().then(nothing),
      adopt: async (found) => {
        await this.#book.adopt(found);
        this.#takeActions();
      },
      abandon: () => {
        this.#session.close();
        this.#book.abandonAll();
        this.#pool.abandon();
      },
      cooled: (end) => this.#pool.cooled(end),
      changed: (backend) => this.#book.observe(backend),
      onReplaced: () => this.#end(),
    });
  }

  #openSession(clockId: string): void {
    this.#commanding = new Promise((resolve) => {
      this.#takeActions = resolve;
    });
    const { droneId } = this.#options;
    const programs = [{ name: 'room', allowArgs: false, allowEnv: [] }];
    this.#session.open({
      droneId,
      clockId,
      datacenter: 'local',
      programs,
      version: '1',
      capacity: 9,
    });
  }

  async #act(action: SpawnAction | TerminateAction): Promise<void> {
    try {
      await this.#commanding;
      await this.#book.act(action);
      const ref = await this.#session.ref();
      await this.#options.link.acknowledge({ ...ref, actionId: action.actionId });
    } catch (error) {
      if (error instanceof SessionSuperseded) return;
      const { world, process } = this.#options;
      world.trace(
        () => `${process.name} could not ${action.kind} ${action.backendId}: ${String(error)}`,
      );
    }
  }

  /** Another agent has taken its place. */
  #end(): void {
    this.#session.close();
    this.#book.close();
    this.#command.close();
    this.#options.process.kill();
  }
}

/** A memory of its own, which it writes through to what the next agent reads. */
function seenIn(disk: Map<string, SeenBackend>): SeenBackends {
  const memory = new Map(disk);
  const seen: Pick<SeenBackends, 'get' | 'unfinished' | 'mark' | 'close'> = {
    get: (backendId) => memory.get(backendId),
    unfinished: (clockId) =>
      [...memory.values()]
        .filter((one) => one.mark === 'started' && one.clockId === clockId)
        .map(({ backendId }) => backendId),
    mark: (one) => {
      memory.set(one.backendId, one);
      disk.set(one.backendId, one);
    },
    close: nothing,
  };
  return seen as SeenBackends;
}

function anyPorts(): Ports {
  const ports: Pick<Ports, 'take' | 'adopt' | 'giveBack'> = {
    take: () => Promise.resolve(21_000),
    adopt: nothing,
    giveBack: nothing,
  };
  return ports as Ports;
}

function workOf(): Work {
  return commandWork(ROOM, PLACE, { inherited: {}, capacity: CONFIG.capacity });
}

function nothing(): void {
  // What a machine would do here changes nothing for keys.
}

const ROOM: CommandConfig = {
  kind: 'command',
  command: '/bin/room',
  args: [],
  env: {},
  reads: [],
  cwd: '/',
  user: { uid: 1, gid: 1 },
  isUserNamed: false,
  port: 'auto',
  stopSignal: 'SIGTERM',
  stopGraceMs: 1_000,
  readiness: { type: 'none', timeoutMs: 300_000, intervalMs: 100 },
  allowArgs: false,
  allowEnv: [],
  memoryMax: '2g',
  pidsMax: 1_024,
  fileSizeMax: '16g',
  warm: 1,
};
const PLACE = {
  user: null,
  cwd: '/',
  command: '/bin/room',
  refusal: undefined,
  problems: [],
  places: { hidden: [], blocked: [], reads: [], fixed: [] },
};
const CONFIG: Pick<DroneConfig, 'capacity' | 'programs'> = {
  capacity: 9,
  programs: { room: ROOM },
};
