/**
 * Drones and their backends: the product's warden with its deadlines, and the product's agent with its
 * keeper, its renewals, its command of the warden, its session and its reports.
 */
import type { Resource } from '../../../libs/keys-core/src/kernel/resource.ts';
import { LeaseDatabase } from '../database/lease-database.ts';
import { Network } from '../engine/network.ts';
import { Machine, Process } from '../engine/process.ts';
import type { World } from '../engine/world.ts';
import { stepsOver, weighted, type Scenario, type Step } from '../scenario.ts';
import { Drone } from './drone.ts';
import { FleetServer } from './fleet-server.ts';

const UNTIL_MS = 12_500;
const DRONE_COUNT = 2;
const KEY_COUNT = 2;
const CONNECT_EVERY_MS = 100;
const FAULTS = {
  storm: 3,
  cut: 5,
  stall: 2,
  freezeWarden: 2,
  freeze: 2,
  killAgent: 3,
  killWarden: 1,
  replace: 2,
  wallClock: 3,
  exit: 2,
  stop: 2,
  force: 2,
  pauseController: 1,
};

export const DRONES: Scenario = {
  name: 'drones',
  steps: (random) =>
    stepsOver(random, { untilMs: UNTIL_MS, everyMs: 750 }, (atMs) => ({
      atMs,
      what: weighted(random, FAULTS),
      who: random.whole(0, DRONE_COUNT - 1),
      whom: random.whole(0, KEY_COUNT - 1),
      ms: random.whole(50, 8_000),
    })),
  async play(world, steps) {
    const stage = new Stage(world);
    for (const step of steps) world.in(step.atMs, undefined, () => stage.do(step));
    await world.run(UNTIL_MS);
  },
};

type Fault = (drone: Drone, key: Resource, ms: number) => void;

class Stage {
  readonly #world: World;
  readonly #network: Network;
  readonly #controller: Process;
  readonly #server: FleetServer;
  readonly #drones: Drone[];

  constructor(world: World) {
    this.#world = world;
    this.#network = new Network(world);
    const random = world.random.fork('stage');
    this.#controller = new Process(world, 'controller', new Machine(world, 1, 5_000));
    const database = new LeaseDatabase(world, new Machine(world, 1, 5_000));
    this.#server = new FleetServer(world, database);
    this.#drones = Array.from({ length: DRONE_COUNT }, (_, index) => {
      const machine = new Machine(world, 0.94 + random.next() * 0.12, random.whole(0, 1e6));
      const common = { world, network: this.#network, controller: this.#controller };
      const droneId = `drone-${String(index)}`;
      return new Drone({ ...common, server: this.#server, machine, droneId });
    });
    this.#connect();
  }

  do({ what, who = 0, whom = 0, ms = 0 }: Step): void {
    const drone = this.#drones[who];
    if (drone !== undefined) this.#faults[what]?.(drone, keyOf(whom), ms);
  }

  /** Callers that want every key all the time: a key that could be granted too early is. */
  #connect(): void {
    for (let index = 0; index < KEY_COUNT; index += 1) {
      if (this.#controller.isRunning) this.#server.connect(keyOf(index));
    }
    this.#world.in(CONNECT_EVERY_MS, undefined, () => this.#connect());
  }

  readonly #faults: Readonly<Record<string, Fault>> = {
    storm: (_drone, _key, ms) => this.#network.storm(ms / 2),
    cut: ({ name }, _key, ms) =>
      // Longer than a TTL, often enough.
      this.#network.cutOff('controller', name, { isOneWay: ms % 3 === 0, forMs: ms * 1.5 }),
    stall: ({ agent }, _key, ms) => agent?.pauseFor(ms),
    freezeWarden: ({ warden }, _key, ms) => warden?.pauseFor(ms),
    freeze: (drone, _key, ms) => {
      drone.freeze();
      this.#in(ms, () => drone.thaw());
    },
    killAgent: (drone, _key, ms) => {
      drone.killAgents();
      this.#in(ms / 2, () => {
        if (drone.agent?.isUp !== true) drone.startAgent();
      });
    },
    killWarden: (drone) => drone.killWarden(),
    replace: (drone) => drone.startAgent(),
    wallClock: ({ machine }, _key, ms) => {
      this.#world.trace(() => `a wall clock is stepped by ${String(ms % 2 === 0 ? ms : -ms)} ms`);
      machine.stepMs += ms % 2 === 0 ? ms : -ms;
    },
    exit: (drone) => drone.exitOne(),
    stop: (_drone, key) => this.#server.revoke(key, 'graceful'),
    force: (_drone, key) => this.#server.revoke(key, 'force'),
    pauseController: (_drone, _key, ms) => this.#controller.pauseFor(ms / 3),
  };

  #in(ms: number, happen: () => void): void {
    this.#world.in(ms, undefined, happen);
  }
}

function keyOf(index: number): Resource {
  return { face: 'key', namespace: '', name: `k${String(index)}` };
}
