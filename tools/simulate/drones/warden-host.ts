import type {
  BackendSnapshot,
  IsolationFacts,
  CommandStart,
  ContainerStart,
  WardenIdentity,
  WarmEnd,
  WarmStart,
} from '../../../apps/drone/src/warden/protocol.ts';
import { Warden } from '../../../apps/drone/src/warden/warden.ts';
import type { Ledger } from '../database/ledger.ts';
import { Process, type Machine } from '../engine/process.ts';
import type { Random } from '../engine/random.ts';
import type { World } from '../engine/world.ts';
import { BackendProcess } from './backend-process.ts';

const TICK_MS = 50;
/** Preparing a backend's processes may take this long. */
const LAUNCH_MS_MAX = 1_500;
/** After a machine was frozen, its warden acts and the kernel kills within this. */
const THAW_MS = 150;

export interface WardenHostOptions {
  readonly world: World;
  readonly machine: Machine;
  readonly name: string;
  readonly random: Random;
  readonly ledger: Ledger;
  /** When the machine was last frozen, if it is not now; undefined while it is. */
  readonly thawedAtMs: () => number | undefined;
}

/** The connection of an agent that commands the warden. */
export interface Commander {
  changed(backend: BackendSnapshot): void;
  cooled(end: WarmEnd): void;
  superseded(): void;
}

/** A process with the product's warden in it, its leash beside it, and the backends below it. */
export class WardenHost {
  readonly process: Process;
  readonly identity: WardenIdentity;
  readonly warden: Warden;
  /** The connection of the agent in command. */
  commander: Commander | undefined;
  readonly backends: BackendProcess[] = [];
  readonly #options: WardenHostOptions;
  #actByMs: number | undefined;

  constructor(options: WardenHostOptions) {
    const { world, machine, name, random } = options;
    this.#options = options;
    this.process = new Process(world, name, machine);
    this.identity = { clockId: random.uuid(), pid: 1, isolation: ISOLATION };
    this.warden = new Warden({
      launch: (request) => this.#launch(request),
      launchWarm: (request) => this.#launchWarm(request),
      nowMs: () => this.#nowMs(),
      onChange: (backend) => this.commander?.changed(backend),
      onCooled: (end) => this.commander?.cooled(end),
      onActBy: (atMs) => this.#hold(atMs),
      onProblem: () => undefined,
    });
    this.#tick();
  }

  /** It ends, and the kernel ends what it has started. */
  kill(): void {
    this.process.kill();
    this.commander = undefined;
    for (const backend of this.backends) backend.kill();
  }

  #tick(): void {
    this.process.after(TICK_MS, () => {
      this.warden.tick(this.#nowMs());
      this.#tick();
    });
  }

  #nowMs(): number {
    const { machine, world } = this.#options;
    const stepMs = world.has('warden-trusts-wall-clock') ? machine.stepMs : 0;
    return machine.nowMs() + stepMs;
  }

  async #launch(request: CommandStart | ContainerStart): Promise<BackendProcess> {
    const { backendId, leaseId } = request;
    const backend = await this.#prepared(backendId, () => undefined);
    const key = 'env' in request ? (request.env['LEASEHOLD_KEY'] ?? '') : '';
    this.#watch(backend, { backendId, leaseId, key });
    return backend;
  }

  async #launchWarm({ warmId }: WarmStart): Promise<BackendProcess> {
    const backend: BackendProcess = await this.#prepared(warmId, (backendId, key) => {
      const { leaseId = '' } = this.warden.list().find((one) => one.backendId === backendId) ?? {};
      this.#watch(backend, { backendId, leaseId, key });
    });
    return backend;
  }

  async #prepared(
    id: string,
    onClaim: (backendId: string, keyName: string) => void,
  ): Promise<BackendProcess> {
    const { world, random } = this.#options;
    await world.sleep(random.next() ** 3 * LAUNCH_MS_MAX, this.process);
    const backend = new BackendProcess(world, { id, onClaim }, random);
    this.backends.push(backend);
    return backend;
  }

  /** It may run only while its key is not granted to another one. */
  #watch(
    backend: BackendProcess,
    { backendId, leaseId, key }: { backendId: string; leaseId: string; key: string },
  ): void {
    const { world, ledger, name, thawedAtMs } = this.#options;
    ledger.watch({ key, leaseId }, () => {
      const thawedMs = thawedAtMs();
      // What is frozen does nothing; after that the warden is given a tick.
      if (thawedMs === undefined || world.nowMs - thawedMs < THAW_MS) return undefined;
      return backend.isRunning ? `${backendId} runs below ${name}` : undefined;
    });
  }

  /** The leash: it ends a warden that has not acted when it should have. */
  #hold(atMs: number | undefined): void {
    if (atMs === this.#actByMs) return;
    this.#actByMs = atMs;
    const { world, machine } = this.#options;
    if (atMs === undefined || world.has('leash-missing')) return;
    const afterMs = Math.max(0, (atMs - this.#nowMs()) / machine.rate);
    world.in(afterMs, undefined, () => {
      const isFrozen = this.#options.thawedAtMs() === undefined;
      if (this.#actByMs !== atMs || !this.process.isUp || isFrozen) return;
      world.trace(() => `the leash of ${this.process.name} acts`);
      this.kill();
    });
  }
}

const ISOLATION: IsolationFacts = {
  user: 'shared',
  pidNamespace: true,
  privateProc: true,
  hiddenHome: true,
  noNewPrivs: true,
  detail: 'simulated',
};
