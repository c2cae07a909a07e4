/**
 * Keys that live in one of three datacenters and move between them: the product's resolver, its proof of
 * a reservation, its connects across datacenters and its mover, on models of the databases and of etcd.
 */
import {
  reservationKeyOf,
  reservationKeyText,
} from '../../../libs/keys-core/src/kernel/reservation.ts';
import type { Resource } from '../../../libs/keys-core/src/kernel/resource.ts';
import { laterToken } from '../../../libs/keys-core/src/postgres/witness/witness-stamp.ts';
import { withMargin } from '../../../libs/keys-core/src/reservations/give-up-service.ts';
import type { GivenUp } from '../../../libs/keys-core/src/reservations/given-up.ts';
import { LeaseDatabase } from '../database/lease-database.ts';
import { Ledger } from '../database/ledger.ts';
import { CALM, Network, STORM } from '../engine/network.ts';
import { Machine, Process } from '../engine/process.ts';
import type { World } from '../engine/world.ts';
import { stepsOver, weighted, type Scenario, type Step } from '../scenario.ts';
import { Datacenter, LADDER } from './datacenter.ts';
import { HomeDatabase } from './home-database.ts';
import { SharedStore } from './shared-store.ts';

const STEPS_UNTIL_MS = 12_000;
const QUIET_FROM_MS = 16_500;
const UNTIL_MS = 20_000;
const NAMES = ['dc0', 'dc1', 'dc2'] as const;
const STORE = 'etcd';
const KEY: Resource = { face: 'key', namespace: '', name: 'k' };
const KEY_TEXT = reservationKeyText(reservationKeyOf(KEY));
/** Clocks differ by less, as in the wait of the product. */
const WAIT_RATE = 1.05;
const WEIGHTS = {
  ...{
    connect: 9,
    find: 3,
    move: 9,
    release: 9,
    storm: 2,
    cut: 3,
    cutStore: 2,
    restart: 2,
    back: 1,
    giveUp: 1,
  },
};

export const HOMES: Scenario = {
  name: 'homes',
  steps: (random) =>
    stepsOver(random, { untilMs: STEPS_UNTIL_MS, everyMs: 320 }, (atMs) => ({
      ...{
        atMs,
        what: weighted(random, WEIGHTS),
        who: random.whole(0, 2),
        whom: random.whole(0, 2),
      },
      ms: random.whole(50, 4_000),
    })),
  async play(world, steps) {
    const stage = new Stage(world);
    for (const step of steps) world.in(step.atMs, undefined, () => stage.do(step));
    world.in(QUIET_FROM_MS, undefined, () => stage.ask());
    await world.run(UNTIL_MS);
    stage.checkAnswers();
  },
};

type Deed = (one: Datacenter, other: Datacenter, ms: number) => void;

class Stage {
  readonly #world: World;
  readonly #network: Network;
  readonly #shared: SharedStore;
  readonly #ledger: Ledger;
  readonly #datacenters: Datacenter[];
  readonly #answers: string[] = [];
  /** The datacenter that is gone, once one is. */
  #lost: GivenUp | undefined;
  #released = new Set<string>();

  constructor(world: World) {
    this.#world = world;
    this.#network = new Network(world);
    const random = world.random.fork('stage');
    this.#ledger = new Ledger(world);
    const storeProcess = new Process(world, STORE, new Machine(world, 1, 0));
    this.#shared = new SharedStore(world, this.#network, storeProcess);
    this.#datacenters = NAMES.map((name) => {
      const machine = new Machine(world, 0.97 + random.next() * 0.06, random.whole(0, 1e6));
      // Clocks of different datacenters have nothing to do with each other.
      machine.stepMs = random.whole(-60_000, 60_000);
      const leases = new LeaseDatabase(world, machine, this.#ledger);
      return new Datacenter({
        ...{ world, network: this.#network, shared: this.#shared, lagMs: random.whole(0, 1_500) },
        process: new Process(world, name, machine),
        database: new HomeDatabase(world, name, leases),
        others: () => this.#datacenters,
        givenUp: {
          find: (of) => (of === this.#lost?.datacenter ? this.#lost : undefined),
          list: () => [],
        },
        onGranted: (key, leaseId) => this.#granted(name, key, leaseId),
      });
    });
  }

  do({ what, who = 0, whom = 0, ms = 0 }: Step): void {
    const [one, other] = [this.#datacenters[who], this.#datacenters[whom]];
    // Nothing happens any more in a datacenter that is gone.
    if (one === undefined || other === undefined || one.isLost) return;
    this.#deeds[what]?.(one, other, ms);
  }

  /** When all is well again, everybody gets an answer, and the same one. */
  ask(): void {
    this.#network.weather = CALM;
    for (const one of this.#datacenters.filter(({ isLost }) => !isLost)) {
      this.#world.in(0, one.process, () => {
        const key = reservationKeyOf(KEY);
        void one.service.resolve({ key, isFresh: true }).then(
          (found) => this.#answers.push(found.outcome === 'found' ? found.reservationId : 'nobody'),
          (error: unknown) => this.#answers.push(String(error)),
        );
      });
    }
  }

  checkAnswers(): void {
    const asked = this.#datacenters.filter(({ isLost }) => !isLost);
    if (this.#answers.length === asked.length && new Set(this.#answers).size === 1) return;
    this.#world.fail('I14 one home, found by all', JSON.stringify(this.#answers));
  }

  readonly #deeds: Readonly<Record<string, Deed>> = {
    connect: (one, other, ms) => this.#connect(one, ms % 4 === 0 ? other.name : undefined),
    find: (one) => this.#find(one),
    move: (one, other) => {
      this.#attempt(one, `moves k to ${other.name}`, () => one.move(KEY, other.name));
    },
    release: () => this.#release(),
    storm: (_one, _other, ms) => {
      this.#network.weather = STORM;
      this.#world.in(ms, undefined, () => (this.#network.weather = CALM));
    },
    cut: (one, other, ms) => this.#cut(one.name, other.name, ms),
    cutStore: (one, _other, ms) => this.#cut(one.name, STORE, ms),
    restart: (one, _other, ms) => one.restart(ms / 4),
    giveUp: (one) => this.#giveUp(one),
    back: (one, _other, ms) => {
      if (!one.database.leases.isHeld(KEY)) one.database.leases.step(-ms);
    },
  };

  /**
   * A datacenter is gone, and somebody declares so. Its keys wait until its last grant is over by its own
   * clock, whatever its rate.
   */
  #giveUp(one: Datacenter): void {
    if (this.#lost !== undefined) return;
    one.lose();
    const said = { declaredAt: '', declaredBy: 'a', declaredIn: '', reason: 'r' };
    this.#lost = { datacenter: one.name, ...said, opened: null };
    this.#world.trace(() => `${one.name} is gone`);
    const waitMs = this.#world.has('given-up-at-once') ? 0 : LADDER.ttlMs * WAIT_RATE;
    const tokens = this.#datacenters.map(({ process }) =>
      String(Math.ceil(process.machine.wallMs())),
    );
    this.#world.in(waitMs, undefined, () => {
      // By its own clock: those of the others have nothing to do with it.
      const { leases } = one.database;
      const last = leases.read(KEY);
      if (last !== undefined && !leases.isHeld(KEY)) {
        this.#ledger.lapsed(last.leaseId, one.process.machine.wallMs());
      }
      const opened = { at: '', by: 'a', reason: 'r', isAbandoned: false };
      const tokenFloor = withMargin(tokens.reduce(laterToken));
      this.#lost = { datacenter: one.name, ...said, opened: { ...opened, tokenFloor } };
      this.#world.trace(() => `the keys of ${one.name} get other homes`);
    });
  }

  #connect(one: Datacenter, elsewhere: string | undefined): void {
    this.#attempt(one, 'connects', () => one.connect(KEY, true, elsewhere));
  }

  /** A connect that starts nothing: a key that is reserved is never answered as if it were not. */
  #find(one: Datacenter): void {
    this.#world.in(0, one.process, () => {
      const since = this.#world.nowMs;
      const key = reservationKeyOf(KEY);
      void one.service.resolve({ key }).then(
        (found) => {
          const written = this.#shared.homeOf(KEY_TEXT);
          const isMissed = found.outcome === 'not_found' && (written?.atMs ?? Infinity) < since;
          if (isMissed) this.#world.fail('C40 a read never answers "none"', one.name);
        },
        () => undefined,
      );
    });
  }

  #attempt(one: Datacenter, what: string, deed: () => Promise<unknown>): void {
    this.#world.in(0, one.process, () => {
      this.#world.trace(() => `${one.name} ${what}`);
      void deed().catch((error: unknown) => {
        this.#world.trace(() => `${one.name} did not: ${String(error)}`);
      });
    });
  }

  #granted(datacenter: string, key: Resource, leaseId: string): void {
    const { leases } = this.#datacenterOf(datacenter).database;
    this.#ledger.watch({ key: key.name, leaseId }, () => {
      const isOver = this.#released.has(leaseId) || (leases.past(leaseId)?.remainingMs ?? 0) <= 0;
      return isOver ? undefined : `${datacenter} has it`;
    });
    const there = this.#datacenters.filter(({ isLost }) => !isLost);
    const homes = there.flatMap(({ database }) => database.activeOf(KEY_TEXT));
    if (homes.length > 1) this.#world.fail('I14 one home per key', homes.join(' and '));
  }

  /** The holder of the key has ended. */
  #release(): void {
    for (const { database } of this.#datacenters) {
      const row = database.leases.read(KEY);
      if (row === undefined || !database.leases.isHeld(KEY)) continue;
      const { leaseId, fencingToken, principal } = row;
      this.#released.add(leaseId);
      database.leases.release('key', { leaseId, fencingToken, principal });
    }
  }

  #cut(one: string, other: string, ms: number): void {
    if (one === other) return;
    const isOneWay = ms % 3 === 0;
    this.#network.cut(one, other);
    if (!isOneWay) this.#network.cut(other, one);
    this.#world.in(ms, undefined, () => {
      this.#network.heal(one, other);
      this.#network.heal(other, one);
    });
  }

  #datacenterOf(name: string): Datacenter {
    const found = this.#datacenters.find((one) => one.name === name);
    if (found === undefined) throw new Error(`there is no datacenter ${name}`);
    return found;
  }
}
