import type { SeenBackend } from '../../../apps/drone/src/agent/seen-backends.ts';
import {
  WardenLost,
  type WardenLink,
  type WardenSource,
} from '../../../apps/drone/src/agent/warden-link.ts';
import type { Network } from '../engine/network.ts';
import { Process, type Machine } from '../engine/process.ts';
import type { Random } from '../engine/random.ts';
import type { World } from '../engine/world.ts';
import { AgentProcess } from './agent-process.ts';
import { droneLink } from './drone-link.ts';
import type { FleetServer } from './fleet-server.ts';
import { LocalLink, WardenSilent } from './local-link.ts';
import { WardenHost } from './warden-host.ts';

const POLL_MS = 50;
const WARDEN_START_MS = 120;

export interface DroneOptions {
  readonly world: World;
  readonly network: Network;
  readonly controller: Process;
  readonly server: FleetServer;
  readonly machine: Machine;
  readonly droneId: string;
}

/** A machine with an agent, or two for a moment, and a warden. */
export class Drone {
  readonly machine: Machine;
  readonly #options: DroneOptions;
  readonly #random: Random;
  readonly #seen = new Map<string, SeenBackend>();
  readonly #links = new Set<{ readonly host: WardenHost; readonly link: LocalLink }>();
  #agents: Process[] = [];
  #host: WardenHost | undefined;
  #thawedAtMs: number | undefined = -Infinity;

  constructor(options: DroneOptions) {
    this.#options = options;
    this.machine = options.machine;
    this.#random = options.world.random.fork(options.droneId);
    this.startAgent();
  }

  get name(): string {
    return this.#options.droneId;
  }

  get agent(): Process | undefined {
    return this.#agents.at(-1);
  }

  get warden(): Process | undefined {
    return this.#host?.process;
  }

  /** Starts an agent, also beside one that runs. All of a drone's have one name on the network. */
  startAgent(): void {
    const { world, network, controller, server, droneId, machine } = this.#options;
    const process = new Process(world, droneId, machine);
    this.#agents = [...this.#agents.filter(({ isUp }) => isUp), process];
    world.trace(() => `an agent of ${droneId} starts`);
    world.in(0, process, () => {
      const link = droneLink({ network, process, controller, server });
      const wardens = this.#wardensFor(process);
      void new AgentProcess({ world, process, droneId, link, wardens, seen: this.#seen });
    });
  }

  killAgents(): void {
    for (const agent of this.#agents) agent.kill();
  }

  killWarden(): void {
    const host = this.#host;
    if (host?.process.isUp !== true) return;
    host.kill();
    for (const one of [...this.#links]) {
      if (one.host !== host) continue;
      this.#links.delete(one);
      const agent = this.agent;
      if (agent !== undefined) this.#options.world.in(1, agent, () => one.link.end());
    }
  }

  /** A program ends by itself. */
  exitOne(): void {
    this.#host?.backends.find(({ isRunning }) => isRunning)?.end(1);
  }

  freeze(): void {
    this.#thawedAtMs = undefined;
    for (const process of [...this.#agents, this.#host?.process]) process?.pause();
  }

  thaw(): void {
    this.#thawedAtMs = this.#options.world.nowMs;
    for (const process of [this.#host?.process, ...this.#agents]) process?.resume();
  }

  #wardensFor(agent: Process): WardenSource {
    const { world } = this.#options;
    return {
      supply: async (listener, { replyTimeoutMs, mayEndSilent }): Promise<WardenLink> => {
        for (;;) {
          const host = this.#host;
          if (host?.process.isUp !== true) break;
          try {
            const link = await LocalLink.connect({ world, agent, host, listener, replyTimeoutMs });
            this.#links.add({ host, link });
            return link;
          } catch (error) {
            if (!(error instanceof WardenLost)) throw error;
            if (!(error instanceof WardenSilent)) break;
            if (await mayEndSilent(host.identity.clockId)) this.killWarden();
            else await world.sleep(POLL_MS, agent);
          }
        }
        await world.sleep(WARDEN_START_MS, agent);
        const host = this.#startWarden();
        const link = await LocalLink.connect({ world, agent, host, listener, replyTimeoutMs });
        this.#links.add({ host, link });
        return link;
      },
      end: () => this.killWarden(),
    };
  }

  #startWarden(): WardenHost {
    if (this.#host?.process.isUp === true) return this.#host;
    const { world, machine, droneId, server } = this.#options;
    world.trace(() => `a warden of ${droneId} starts`);
    this.#host = new WardenHost({
      world,
      machine,
      name: `warden of ${droneId}`,
      random: this.#random,
      ledger: server.database.ledger,
      thawedAtMs: () => this.#thawedAtMs,
    });
    return this.#host;
  }
}
