/**
 * Callers that wait in line at two controllers: the product's client library, its service of leases with
 * the waiting room and the line, and its watch of the clock, on the oracle of the statements.
 */
import { resourceKey, type Resource } from '../../../libs/keys-core/src/kernel/resource.ts';
import { LeaseDatabase } from '../database/lease-database.ts';
import { CALM, Network, STORM } from '../engine/network.ts';
import { Machine, Process } from '../engine/process.ts';
import type { World } from '../engine/world.ts';
import { stepsOver, weighted, type Scenario, type Step } from '../scenario.ts';
import { Client } from './client.ts';
import { Controller } from './controller.ts';
import { LineDatabase } from './line-database.ts';
import { lineStatements } from './line-statements.ts';

const WORK_UNTIL_MS = 6_000;
const FAULTS_UNTIL_MS = 2_800;
const UNTIL_MS = 9_200;
const CLIENT_COUNT = 3;
const KEYS = ['a', 'b'] as const;
const FAULTS = { storm: 3, pause: 3, kill: 1, cut: 2, restart: 2, deaf: 2, unreached: 2, step: 1 };
/** In quiet times a free lease that is awaited is granted within this, a waiter that died included. */
const REGRANT_MS = 2_000;
/** How long after the last fault times are quiet: the longest TTL, and the client's own bounds. */
const QUIET_AFTER_MS = 3_200;
const CHECK_EVERY_MS = 250;
/** A client notices that its controller has ended. */
const DISCONNECT_MS = 5;

export const QUEUE: Scenario = {
  name: 'queue',
  steps(random) {
    const work = stepsOver(random, { untilMs: WORK_UNTIL_MS, everyMs: 450 }, (atMs) => ({
      ...{ atMs, what: 'work', who: random.whole(0, CLIENT_COUNT - 1) },
      ...{ whom: random.whole(0, 5), ms: random.whole(0, 1_000_000) },
    }));
    const faults = stepsOver(random, { untilMs: FAULTS_UNTIL_MS, everyMs: 500 }, (atMs) => ({
      ...{ atMs, what: weighted(random, FAULTS), who: random.whole(0, CLIENT_COUNT - 1) },
      ...{ whom: random.whole(0, 1), ms: random.whole(100, 1_200) },
    }));
    return [...work, ...faults].sort((a, b) => a.atMs - b.atMs);
  },
  async play(world, steps) {
    const stage = new Stage(world);
    for (const step of steps) world.in(step.atMs, undefined, () => stage.do(step));
    await world.run(UNTIL_MS);
  },
};

type Fault = (of: { client: Client; controller: Controller }, ms: number) => void;

class Stage {
  readonly #world: World;
  readonly #network: Network;
  readonly #database: LineDatabase;
  readonly #controllers: Controller[];
  readonly #clients: Client[];
  readonly #freeSinceMs = new Map<string, number>();
  #areHintsLost = false;
  #quietFromMs = 0;

  constructor(world: World) {
    this.#world = world;
    this.#network = new Network(world);
    const random = world.random.fork('stage');
    const leases = new LeaseDatabase(world, new Machine(world, 1, 5_000));
    this.#database = new LineDatabase(world, leases);
    const statements = lineStatements(world, this.#database);
    this.#controllers = [0, 1].map((index) => {
      const machine = new Machine(world, 1 + (random.next() - 0.5) * 0.000_4, random.whole(0, 1e6));
      const process = new Process(world, `controller-${String(index)}`, machine);
      const common = { world, network: this.#network, database: this.#database, statements };
      return new Controller({ ...common, process, tell: (from, topic) => this.#hint(from, topic) });
    });
    this.#clients = Array.from({ length: CLIENT_COUNT }, (_, index) => {
      const machine = new Machine(world, 0.94 + random.next() * 0.12, random.whole(0, 1e6));
      const process = new Process(world, `client-${String(index)}`, machine);
      const { ledger } = leases;
      return new Client({
        world,
        network: this.#network,
        process,
        controllers: this.#controllers,
        ledger,
      });
    });
    world.in(0, undefined, () => this.#check());
  }

  do(step: Step): void {
    const { what, who = 0, whom = 0, ms = 0 } = step;
    const client = this.#clients[who];
    const controller = this.#controllers[whom];
    if (what === 'work') {
      if (client?.process.isUp === true) this.#work(client, step);
      return;
    }
    if (client === undefined || controller === undefined) return;
    this.#quietFromMs = this.#world.nowMs + ms + QUIET_AFTER_MS;
    this.#faults[what]?.({ client, controller }, ms);
  }

  readonly #faults: Readonly<Record<string, Fault>> = {
    storm: (_of, ms) => {
      this.#network.weather = STORM;
      this.#in(ms, () => (this.#network.weather = CALM));
    },
    pause: ({ client }, ms) => {
      client.process.pause();
      this.#in(ms, () => client.process.resume());
    },
    kill: ({ client }, ms) => {
      client.process.kill();
      this.#in(ms, () => this.#startAgain(client));
    },
    cut: ({ client, controller }, ms) => {
      this.#cut(client.process.name, controller.process.name, ms);
    },
    restart: ({ controller }, ms) => {
      controller.restart(ms);
      for (const one of this.#clients) {
        this.#world.in(DISCONNECT_MS, one.process, () => one.disconnected(controller));
      }
    },
    deaf: (_of, ms) => {
      this.#areHintsLost = true;
      this.#in(ms, () => (this.#areHintsLost = false));
    },
    unreached: ({ controller }, ms) => this.#cut(controller.process.name, 'database', ms),
    step: (_of, ms) => this.#database.leases.step(ms % 2 === 0 ? ms : -ms),
  };

  #in(ms: number, happen: () => void): void {
    this.#world.in(ms, undefined, happen);
  }

  #startAgain(client: Client): void {
    if (client.process.isUp) return;
    client.process.start();
    this.#world.in(0, client.process, () => client.open());
  }

  #work(client: Client, { whom = 0, ms = 0 }: Step): void {
    // What a step does not name is drawn from it alone, so that leaving out others changes nothing here.
    const of = this.#world.random.fork(`work ${String(ms)}`);
    const waitMs = of.chance(0.75) ? of.whole(500, 5_000) : 0;
    const work = {
      ...{ key: whom < 4 ? KEYS[0] : KEYS[1], ttlMs: of.whole(1_500, 2_500), waitMs },
      ...{
        holdMs: of.whole(50, 2_500),
        giveUpMs: of.chance(0.2) ? of.whole(10, 2_000) : undefined,
      },
    };
    this.#world.in(0, client.process, () => void client.work(work));
  }

  #cut(one: string, other: string, ms: number): void {
    this.#network.cut(one, other);
    this.#network.cut(other, one);
    this.#in(ms, () => {
      this.#network.heal(one, other);
      this.#network.heal(other, one);
    });
  }

  #hint(from: Controller, topic: string): void {
    for (const other of this.#controllers) {
      if (other === from || this.#areHintsLost) continue;
      this.#network.send(from.process, other.process, () => other.deliver(topic));
    }
  }

  /** In quiet times: a caller that waits for a free lease gets it soon. */
  #check(): void {
    const { nowMs } = this.#world;
    this.#world.in(CHECK_EVERY_MS, undefined, () => this.#check());
    for (const name of KEYS) {
      const resource: Resource = { face: 'lease', namespace: 'q', name };
      const isHeld = this.#database.leases.isHeld(resource);
      const isAwaited = this.#database.live(resource).length > 0;
      const key = resourceKey(resource);
      if (isHeld || !isAwaited || nowMs < this.#quietFromMs) {
        this.#freeSinceMs.delete(key);
        continue;
      }
      const sinceMs = this.#freeSinceMs.get(key) ?? nowMs;
      this.#freeSinceMs.set(key, sinceMs);
      if (nowMs - sinceMs > REGRANT_MS) {
        this.#world.fail('I10 a free lease is granted', `${name} is free and awaited for too long`);
      }
    }
  }
}
