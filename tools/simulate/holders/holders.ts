/**
 * Holders of keys over a bad network: the kernel's oracle on one side, the product's `LeaseKeeper` and its
 * ladder on the other, and the product's watch of the database's clock between them.
 */
import { KEY_LADDERS, type Ladder } from '../../../libs/keys-core/src/kernel/ladder.ts';
import type { Resource } from '../../../libs/keys-core/src/kernel/resource.ts';
import {
  createClockWatch,
  type ClockWatch,
} from '../../../libs/keys-core/src/postgres/clock/clock-watch.ts';
import { LeaseDatabase } from '../database/lease-database.ts';
import { Network } from '../engine/network.ts';
import { Machine, Process } from '../engine/process.ts';
import type { Random } from '../engine/random.ts';
import type { World } from '../engine/world.ts';
import { stepsOver, weighted, type Scenario, type Step } from '../scenario.ts';
import { Holder } from './holder.ts';

const UNTIL_MS = 22_000;
const HOLDER_COUNT = 4;
const KEY_COUNT = 2;
/** How often a controller looks at the database's clock, whatever else it does. */
const LOOK_EVERY_MS = 250;
/** Steps of the clock that come sooner than this after another are left out: nobody could see them. */
const STEPS_APART_MS = 1_000;
const SHORT: Ladder = { renewAfterMs: 1_000, softAfterMs: 1_800, hardAfterMs: 2_800, ttlMs: 3_500 };
const WEIGHTS = {
  ask: 12,
  release: 2,
  storm: 3,
  pause: 3,
  cut: 3,
  revoke: 1,
  block: 1,
  back: 1,
  forward: 1,
  unwatched: 1,
};

export const HOLDERS: Scenario = {
  name: 'holders',
  steps: (random: Random) =>
    stepsOver(random, { untilMs: UNTIL_MS, everyMs: 700 }, (atMs) => ({
      atMs,
      what: weighted(random, WEIGHTS),
      who: random.whole(0, HOLDER_COUNT - 1),
      whom: random.whole(0, KEY_COUNT - 1),
      ms: random.whole(200, 9_000),
    })),
  async play(world, steps) {
    world.hasPromises = false;
    const stage = new Stage(world);
    for (const step of steps) world.in(step.atMs, undefined, () => stage.do(step));
    await world.run(UNTIL_MS + 2_000);
  },
};

type Deed = (holder: Holder, key: Resource, ms: number) => void;

class Stage {
  readonly #world: World;
  readonly #network: Network;
  readonly #database: LeaseDatabase;
  readonly #server: Process;
  readonly #holders: Holder[];
  #watch = newWatch();
  #steppedAtMs = -Infinity;

  constructor(world: World) {
    this.#world = world;
    this.#network = new Network(world);
    const random = world.random.fork('stage');
    this.#database = new LeaseDatabase(world, new Machine(world, 1, 5_000));
    this.#server = new Process(world, 'controller', new Machine(world, 1, 80_000));
    const ladder = random.pick([KEY_LADDERS.fast, SHORT]);
    this.#holders = Array.from({ length: HOLDER_COUNT }, (_, index) => {
      const rate = 0.94 + random.next() * 0.12;
      const machine = new Machine(world, rate, random.whole(0, 1_000_000));
      return new Holder({
        world,
        ladder,
        network: this.#network,
        server: this.#server,
        database: this.#database,
        watch: () => this.#watch,
        process: new Process(world, `holder-${String(index)}`, machine),
      });
    });
    this.#look();
  }

  do({ what, who = 0, whom = 0, ms = 0 }: Step): void {
    const holder = this.#holders[who];
    const key: Resource = { face: 'key', namespace: '', name: `k${String(whom)}` };
    if (holder !== undefined) this.#deeds[what]?.(holder, key, ms);
  }

  readonly #deeds: Readonly<Record<string, Deed>> = {
    ask: (holder, key, ms) => holder.want(key, ms),
    release: (holder) => holder.release(),
    storm: (_holder, _key, ms) => this.#network.storm(ms),
    pause: ({ process }, _key, ms) => process.pauseFor(ms),
    cut: ({ process: { name } }, _key, ms) =>
      this.#network.cutOff(this.#server.name, name, { isOneWay: ms % 3 === 0, forMs: ms }),
    revoke: (_holder, key) => this.#revoke(key, 'force'),
    block: (_holder, key) => this.#revoke(key, 'graceful'),
    back: (_holder, _key, ms) => this.#step(-ms),
    forward: (_holder, _key, ms) => this.#step(ms),
    unwatched: () => {
      this.#watch = newWatch();
      this.#observe();
    },
  };

  #revoke(key: Resource, mode: 'graceful' | 'force'): void {
    this.#database.revoke(this.#database.newestId(key) ?? '', mode);
  }

  #step(ms: number): void {
    if (this.#world.nowMs - this.#steppedAtMs < STEPS_APART_MS) return;
    this.#steppedAtMs = this.#world.nowMs;
    this.#database.step(ms);
  }

  #look(): void {
    this.#observe();
    this.#world.in(LOOK_EVERY_MS, undefined, () => this.#look());
  }

  #observe(): void {
    const nowMs = this.#server.machine.nowMs();
    this.#watch.observe(this.#database.machine.wallMs(), nowMs, nowMs);
  }
}

/** Of a controller that has just started: it has watched nothing. */
function newWatch(): ClockWatch {
  return createClockWatch({ onJump: () => undefined });
}
