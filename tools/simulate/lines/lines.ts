/**
 * Callers in lines for permits, shared leases, several leases at once and environments, over a bad network: the oracle of
 * the kernel's statements on one side, the product's `LeaseKeeper` on the other.
 */
import { LeaseKeeper } from '../../../libs/keys-core/src/holder/lease-keeper.ts';
import { deadlinesFrom, type Ladder } from '../../../libs/keys-core/src/kernel/ladder.ts';
import type { ModelMode } from '../../../libs/keys-core/src/testing/model/line-model.ts';
import { Network } from '../engine/network.ts';
import { Machine, Process } from '../engine/process.ts';
import type { Random } from '../engine/random.ts';
import type { World } from '../engine/world.ts';
import { stepsOver, weighted, type Scenario, type Step } from '../scenario.ts';
import { LineDatabase, type LineAnswer } from './line-database.ts';
import type { GivenLease, LineRequest } from './line-ledger.ts';

const UNTIL_MS = 22_000;
const CALLER_COUNT = 6;
const TICK_MS = 50;
/** How often one that waits asks for its turn. */
const ASK_EVERY_MS = 200;
const LADDER: Ladder = {
  renewAfterMs: 1_000,
  softAfterMs: 1_800,
  hardAfterMs: 2_800,
  ttlMs: 3_500,
};
const PERMITS = { perKey: 2, total: 3 };
const WEIGHTS = {
  ...{ permit: 3, shared: 3, alone: 2, together: 4, deploy: 3, supersede: 2 },
  ...{ release: 4, downgrade: 2, giveUp: 1, declare: 1, freeze: 1 },
  ...{ storm: 2, pause: 3, cut: 3, kill: 2 },
};

export const LINES: Scenario = {
  name: 'lines',
  steps: (random: Random) =>
    stepsOver(random, { untilMs: UNTIL_MS, everyMs: 350 }, (atMs) => ({
      atMs,
      what: weighted(random, WEIGHTS),
      who: random.whole(0, CALLER_COUNT - 1),
      whom: random.whole(0, 2),
      ms: random.whole(200, 9_000),
    })),
  async play(world, steps) {
    world.hasPromises = false;
    const stage = new Stage(world);
    for (const step of steps) world.in(step.atMs, undefined, () => stage.do(step));
    await world.run(UNTIL_MS + 2_000);
  },
};

type Deed = (caller: Caller, whom: number, ms: number) => void;

class Stage {
  readonly #world: World;
  readonly #network: Network;
  readonly #database: LineDatabase;
  readonly #server: Process;
  readonly #callers: Caller[];

  constructor(world: World) {
    this.#world = world;
    this.#network = new Network(world);
    const random = world.random.fork('stage');
    const database = new LineDatabase(world, new Machine(world, 1, 5_000));
    this.#database = database;
    const server = new Process(world, 'controller', new Machine(world, 1, 80_000));
    this.#server = server;
    database.declare('permit', PERMITS);
    this.#callers = Array.from({ length: CALLER_COUNT }, (_, index) => {
      const rate = 0.94 + random.next() * 0.12;
      const machine = new Machine(world, rate, random.whole(0, 1_000_000));
      const process = new Process(world, `caller-${String(index)}`, machine);
      return new Caller({ world, network: this.#network, server, database, process });
    });
  }

  do({ what, who = 0, whom = 0, ms = 0 }: Step): void {
    const caller = this.#callers[who];
    if (caller === undefined) return;
    const deed = this.#deeds[what];
    if (deed === undefined) caller.want(what, whom, ms);
    else deed(caller, whom, ms);
  }

  readonly #deeds: Readonly<Record<string, Deed>> = {
    release: (caller) => caller.release(),
    downgrade: (caller) => caller.downgrade(),
    giveUp: (caller) => caller.giveUp(),
    declare: (_caller, _whom, ms) =>
      this.#database.declare('permit', { perKey: 1 + (ms % 2), total: 2 + (ms % 3) }),
    freeze: (_caller, whom, ms) => this.#database.freeze(environment(whom), ms),
    storm: (_caller, _whom, ms) => this.#network.storm(ms),
    pause: ({ process }, _whom, ms) => process.pauseFor(ms),
    cut: ({ process: { name } }, _whom, ms) =>
      this.#network.cutOff(this.#server.name, name, { isOneWay: ms % 3 === 0, forMs: ms }),
    kill: (caller, _whom, ms) => {
      caller.die();
      this.#world.in(ms / 2, undefined, () => caller.process.start());
    },
  };
}

function environment(whom: number) {
  return { face: 'environment', namespace: 'deploys', name: `e${String(whom % 2)}` } as const;
}

interface CallerOptions {
  readonly world: World;
  readonly network: Network;
  readonly server: Process;
  readonly database: LineDatabase;
  readonly process: Process;
}

/** One lease of a caller: it acts until it is told to stop hard. */
interface Held {
  readonly leaseId: string;
  readonly keeper: LeaseKeeper;
}

/** Wants something, waits for it in line, and holds it as its keepers decide. */
class Caller {
  readonly process: Process;
  readonly #options: CallerOptions;
  #wanted: (LineRequest & { readonly untilMs: number }) | undefined;
  #held: Held[] = [];
  /** Whether what it holds may be shared. */
  #isReader = false;

  constructor(options: CallerOptions) {
    this.#options = options;
    this.process = options.process;
  }

  want(what: string, whom: number, forMs: number): void {
    const { world } = this.#options;
    if (this.#wanted !== undefined || this.#held.length > 0 || !this.process.isRunning) return;
    const isDeploy = what === 'deploy' || what === 'supersede';
    const mode: ModelMode = what === 'permit' || what === 'shared' ? what : 'alone';
    const namespace = what === 'alone' ? 'shared' : what;
    const names = what === 'together' ? [whom, whom + 1].map((name) => name % 3) : [whom % 2];
    this.#wanted = {
      id: world.random.uuid(),
      supersede: what === 'supersede' ? 'running' : undefined,
      untilMs: world.nowMs + forMs,
      ask: {
        parts: names.map((name) => ({
          resource: isDeploy
            ? environment(name)
            : { face: 'lease', namespace, name: `n${String(name)}` },
          leaseId: world.random.uuid(),
          mode,
        })),
        ...{ holder: this.process.name, ttlMs: LADDER.ttlMs, action: isDeploy ? 'deploy' : '' },
        ...{ priority: 0, isNewestFirst: isDeploy && forMs % 4 === 0 },
      },
    };
    world.in(0, this.process, () => this.#ask());
  }

  /** A process that has died remembers nothing: what it held runs out. */
  die(): void {
    this.process.kill();
    this.#wanted = undefined;
    this.#held = [];
  }

  release(): void {
    if (!this.process.isRunning) return;
    const { network, server, database } = this.#options;
    for (const { leaseId } of this.#held) {
      network.send(this.process, server, () => database.release(leaseId));
    }
    this.#held = [];
  }

  downgrade(): void {
    const { network, server, database } = this.#options;
    const [held] = this.#held;
    if (held === undefined || !this.process.isRunning || !this.#isReader) return;
    network.send(this.process, server, () => database.downgrade(held.leaseId));
  }

  giveUp(): void {
    const wanted = this.#wanted;
    if (wanted === undefined || !this.process.isRunning) return;
    this.#wanted = undefined;
    const { network, server, database } = this.#options;
    network.send(this.process, server, () => database.leave(wanted.id));
  }

  #ask(): void {
    const { world, network, server, database } = this.#options;
    const wanted = this.#wanted;
    if (wanted === undefined) return;
    if (world.nowMs > wanted.untilMs) {
      this.giveUp();
      return;
    }
    this.process.after(ASK_EVERY_MS, () => this.#ask());
    const localTimeMs = this.#now();
    const ids = new Set(wanted.ask.parts.map(({ leaseId }) => leaseId));
    const acts = (): boolean =>
      this.process.isRunning && this.#held.some(({ leaseId }) => ids.has(leaseId));
    network.send(this.process, server, () => {
      const answer = database.ask(wanted, acts);
      const asOf = database.now();
      network.send(server, this.process, () => this.#told(wanted, answer, { localTimeMs, asOf }));
    });
  }

  #told(
    wanted: LineRequest,
    answer: LineAnswer,
    { localTimeMs, asOf }: { readonly localTimeMs: number; readonly asOf: number },
  ): void {
    if (this.#wanted?.id !== wanted.id || answer.outcome === 'waiting') return;
    this.#wanted = undefined;
    if (answer.outcome !== 'granted') return;
    this.#isReader = wanted.ask.parts[0]?.resource.namespace === 'shared';
    // One that is told late may find that it is over.
    this.#held = answer.leases.map((lease) =>
      this.#keep(lease, localTimeMs, lease.expiresAt - asOf),
    );
    this.#tick();
  }

  #keep({ part }: GivenLease, localTimeMs: number, remainingMs: number): Held {
    const { world } = this.#options;
    const keeper = new LeaseKeeper({
      ladder: LADDER,
      deadlines: deadlinesFrom(LADDER, localTimeMs, remainingMs),
      isConfirmed: true,
      nowMs: this.#now(),
      random: () => world.random.next(),
    });
    return { leaseId: part.leaseId, keeper };
  }

  #tick(): void {
    if (this.#held.length === 0) return;
    this.process.after(TICK_MS, () => this.#tick());
    for (const held of this.#held) this.#carryOut(held, held.keeper.tick(this.#now()));
  }

  #carryOut(held: Held, effects: ReturnType<LeaseKeeper['tick']>): void {
    for (const effect of effects) {
      if (effect.kind === 'renew') this.#renew(held, effect.requestId);
      // One of several that is lost ends the work under all of them.
      else if (effect.kind !== 'soft_terminate') this.release();
    }
  }

  #renew(held: Held, requestId: number): void {
    const { network, server, database } = this.#options;
    const localTimeMs = this.#now();
    network.send(this.process, server, () => {
      const remainingMs = database.renew(held.leaseId);
      network.send(server, this.process, () => {
        if (!this.#held.includes(held)) return;
        const { keeper } = held;
        this.#carryOut(
          held,
          remainingMs === undefined
            ? keeper.refused(requestId, 'renewal_blocked', this.#now())
            : keeper.renewed(
                requestId,
                deadlinesFrom(LADDER, localTimeMs, remainingMs),
                this.#now(),
              ),
        );
      });
    });
  }

  #now(): number {
    return this.process.machine.nowMs();
  }
}
