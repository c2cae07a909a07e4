import { LeaseKeeper } from '../../../libs/keys-core/src/holder/lease-keeper.ts';
import { deadlinesFrom, type Ladder } from '../../../libs/keys-core/src/kernel/ladder.ts';
import type { RenewOutcome } from '../../../libs/keys-core/src/kernel/lease.ts';
import type { Resource } from '../../../libs/keys-core/src/kernel/resource.ts';
import type { ClockWatch } from '../../../libs/keys-core/src/postgres/clock/clock-watch.ts';
import type { HolderRef, LeaseDatabase } from '../database/lease-database.ts';
import type { Network } from '../engine/network.ts';
import type { Process } from '../engine/process.ts';
import type { World } from '../engine/world.ts';

const TICK_MS = 50;
const ASK_EVERY_MS = 400;

export interface HolderOptions {
  readonly world: World;
  readonly network: Network;
  readonly server: Process;
  readonly database: LeaseDatabase;
  readonly watch: () => ClockWatch;
  readonly ladder: Ladder;
  readonly process: Process;
}

/** What a holder has: it acts until it is told to stop hard. */
interface Held {
  readonly key: Resource;
  readonly ref: HolderRef;
  readonly keeper: LeaseKeeper;
  /** When the grant has run out at the latest, by all the answers that the database has given. */
  overAtMs: number;
  isSoft: boolean;
  isOver: boolean;
}

/** Wants a key for a while, and holds it as its keeper decides. */
export class Holder {
  readonly process: Process;
  readonly #options: HolderOptions;
  #wanted: { readonly key: Resource; readonly untilMs: number } | undefined;
  #held: Held | undefined;
  #isTicking = false;

  constructor(options: HolderOptions) {
    this.#options = options;
    this.process = options.process;
  }

  want(key: Resource, forMs: number): void {
    if (this.#wanted !== undefined || this.#held !== undefined) return;
    this.#wanted = { key, untilMs: this.#options.world.nowMs + forMs };
    this.#options.world.in(0, this.process, () => this.#ask());
  }

  release(): void {
    const held = this.#held;
    if (held === undefined || held.isOver || !this.process.isRunning) return;
    this.#end(held);
    const { network, server, database } = this.#options;
    network.send(this.process, server, () => database.release('key', held.ref));
  }

  #ask(): void {
    const { world, network, server, ladder, database } = this.#options;
    const wanted = this.#wanted;
    if (wanted === undefined || this.#held !== undefined) return;
    if (world.nowMs > wanted.untilMs) {
      this.#wanted = undefined;
      return;
    }
    this.process.after(ASK_EVERY_MS, () => this.#ask());
    const localTimeMs = this.#now();
    const { name } = this.process;
    const leaseId = world.random.uuid();
    network.send(this.process, server, () => {
      // A repeated message has the same idempotency key, and is granted nothing.
      if (database.past(leaseId) !== undefined) return;
      const watch = this.#options.watch();
      watch.observe(database.machine.wallMs(), server.machine.nowMs(), server.machine.nowMs());
      const asked = { ...NOTHING, ...wanted.key, leaseId, holder: name, principal: name, ladder };
      const answer = database.grant(asked, watch.belief(server.machine.nowMs()));
      if (!('granted' in answer)) return;
      const { fencingToken, remainingMs } = answer.granted;
      const overAtMs = world.nowMs + remainingMs;
      const ref = { leaseId, fencingToken, principal: name };
      network.send(server, this.process, () =>
        this.#take(wanted.key, ref, { localTimeMs, remainingMs, overAtMs }),
      );
    });
  }

  #take(
    key: Resource,
    ref: HolderRef,
    of: { localTimeMs: number; remainingMs: number; overAtMs: number },
  ): void {
    if (this.#held !== undefined || this.#wanted === undefined) return;
    const { world, ladder, database } = this.#options;
    this.#wanted = undefined;
    const held: Held = {
      key,
      ref,
      overAtMs: of.overAtMs,
      isSoft: false,
      isOver: false,
      keeper: new LeaseKeeper({
        ladder,
        deadlines: deadlinesFrom(ladder, of.localTimeMs, of.remainingMs),
        isConfirmed: true,
        nowMs: this.#now(),
        random: () => world.random.next(),
      }),
    };
    this.#held = held;
    const { leaseId } = ref;
    database.ledger.watch({ key: key.name, leaseId }, () =>
      // While it is paused it does nothing, and it is judged before it does anything else.
      held.isOver || !this.process.isRunning ? undefined : `${this.process.name} still acts`,
    );
    if (!this.#isTicking) this.#tick();
  }

  #tick(): void {
    const held = this.#held;
    this.#isTicking = held !== undefined;
    if (held === undefined) return;
    this.process.after(TICK_MS, () => this.#tick());
    this.#carryOut(held, held.keeper.tick(this.#now()));
  }

  #carryOut(held: Held, effects: ReturnType<LeaseKeeper['tick']>): void {
    for (const effect of effects) {
      if (effect.kind === 'renew') this.#renew(held, effect.requestId);
      else if (effect.kind === 'soft_terminate') held.isSoft = true;
      else {
        if (!held.isSoft) this.#options.world.fail('C22 soft before hard', this.process.name);
        this.#end(held);
      }
    }
  }

  #renew(held: Held, requestId: number): void {
    const { network, server, database } = this.#options;
    const localTimeMs = this.#now();
    network.send(this.process, server, () => {
      const answer = database.renew('key', held.ref);
      if (answer.outcome === 'renewed') {
        held.overAtMs = Math.max(held.overAtMs, this.#options.world.nowMs + answer.remainingMs);
      }
      network.send(server, this.process, () =>
        this.#answered(held, { requestId, localTimeMs, answer }),
      );
    });
  }

  #answered(
    held: Held,
    {
      requestId,
      localTimeMs,
      answer,
    }: { requestId: number; localTimeMs: number; answer: RenewOutcome },
  ): void {
    const { world, ladder } = this.#options;
    const { keeper } = held;
    if (held !== this.#held || held.isOver) return;
    const before = keeper.deadlines.hardTerminateAtMs;
    if (answer.outcome === 'refused') {
      this.#carryOut(held, keeper.refused(requestId, answer.reason, this.#now()));
      return;
    }
    const sinceMs = world.has('deadline-from-reply') ? this.#now() : localTimeMs;
    const deadlines = deadlinesFrom(ladder, sinceMs, answer.remainingMs);
    this.#carryOut(held, keeper.renewed(requestId, deadlines, this.#now()));
    if (keeper.deadlines.hardTerminateAtMs < before) {
      world.fail('I8 a reply never moves a deadline earlier', this.process.name);
    }
    const leftMs = keeper.deadlines.hardTerminateAtMs - this.#now();
    if (world.nowMs + leftMs / this.process.machine.rate > held.overAtMs) {
      world.fail('I8 a reply never moves a deadline past the expiry', this.process.name);
    }
  }

  #end(held: Held): void {
    this.#options.world.trace(() => `${this.process.name} has stopped`);
    held.isOver = true;
    this.#held = undefined;
  }

  #now(): number {
    return this.process.machine.nowMs();
  }
}

const NOTHING = { tag: '', comment: null, metadata: null, actor: 'simulated' } as const;
