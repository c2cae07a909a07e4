import { LeaseTaker } from '../../../libs/client/src/lease/acquire.ts';
import { Background } from '../../../libs/client/src/lease/calls.ts';
import { Holdings } from '../../../libs/client/src/lease/holdings.ts';
import type { LeaseWire } from '../../../libs/client/src/lease/lease-wire.ts';
import type { Lease } from '../../../libs/client/src/lease/lease.ts';
import type { Machine } from '../../../libs/client/src/machine.ts';
import type { Ending } from '../../../libs/client/src/signals.ts';
import {
  codedError,
  OutcomeUnknownError,
  UnreachableError,
} from '../../../libs/client/src/transport/errors.ts';
import { LeaseError } from '../../../libs/keys-core/src/kernel/errors.ts';
import type { CallerLife } from '../../../libs/keys-core/src/leases/lease-types.ts';
import { createBootClock } from '../../../libs/service-kit/src/clock.ts';
import type { Ledger } from '../database/ledger.ts';
import { asError, type Network } from '../engine/network.ts';
import type { Process } from '../engine/process.ts';
import type { World } from '../engine/world.ts';
import type { Controller } from './controller.ts';

/** A caller counts as alive for this long after it last sent anything. */
const ALIVE_MS = 1_000;
const NAMESPACE = 'q';

export interface ClientOptions {
  readonly world: World;
  readonly network: Network;
  readonly process: Process;
  readonly controllers: readonly Controller[];
  readonly ledger: Ledger;
}

/** A piece of work that needs a lease. */
export interface Work {
  readonly key: string;
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly holdMs: number;
  /** When its caller gives up; undefined: not before its time. */
  readonly giveUpMs: number | undefined;
}

/** A service with the product's client library. */
export class Client {
  readonly process: Process;
  readonly #options: ClientOptions;
  #machine!: Machine;
  #taker!: LeaseTaker;
  #controller = 0;
  /** Calls that end with their connection. */
  #calls = new Set<{ readonly to: Controller; readonly fail: (error: Error) => void }>();

  constructor(options: ClientOptions) {
    this.#options = options;
    this.process = options.process;
    options.world.in(0, this.process, () => this.open());
  }

  open(): void {
    const random = this.#options.world.random.fork(
      `${this.process.name} ${String(this.process.incarnation)}`,
    );
    this.#calls = new Set();
    this.#machine = {
      clock: createBootClock(() => this.process.machine.nowMs()),
      uuid: () => random.uuid(),
      random: () => random.next(),
    };
    const deps = { machine: this.#machine, wire: this.#wire(), background: new Background() };
    const holdings = new Holdings(deps);
    const url = 'http://controller';
    this.#taker = new LeaseTaker({
      ...{ ...deps, holdings, url, answerMs: 6_000, beforeAcquire: () => undefined },
    });
  }

  /** The connections to a controller are gone. */
  disconnected(from: Controller): void {
    for (const { to, fail } of [...this.#calls]) if (to === from) fail(new OutcomeUnknownError());
  }

  async work(work: Work): Promise<void> {
    const { world, ledger } = this.#options;
    const { name } = this.process;
    const giveUp = new AbortController();
    if (work.giveUpMs !== undefined) {
      this.process.after(work.giveUpMs, () => giveUp.abort(new Error('enough')));
    }
    let lease: Lease;
    try {
      lease = await this.#taker.acquire({
        ...{ scope: { face: 'lease', namespace: [NAMESPACE], key: work.key }, holder: name },
        ...{ ttlMs: work.ttlMs, waitMs: work.waitMs, renews: true, signal: giveUp.signal },
      });
    } catch (error) {
      world.trace(() => `${name} did not get ${work.key}: ${String(error)}`);
      return;
    }
    world.trace(() => `${name} begins to work with ${work.key}`);
    const state = { isReleased: false };
    const { incarnation } = this.process;
    ledger.watch({ key: work.key, leaseId: lease.leaseId }, () => {
      const isThere = this.process.isRunning && this.process.incarnation === incarnation;
      if (!isThere || state.isReleased) return undefined;
      if (lease.isHeld) return `${name} holds it`;
      return lease.signal.aborted ? undefined : `the signal of ${name} has not fired`;
    });
    await new Promise<void>((resolve) => {
      this.process.after(work.holdMs, resolve);
      lease.signal.addEventListener('abort', () => resolve());
    });
    state.isReleased = true;
    world.trace(() => `${name} ends its work with ${work.key}`);
    await lease.release();
  }

  #wire(): LeaseWire {
    const caller = {
      principal: this.process.name,
      actor: this.process.name,
      role: 'client',
      namespaces: null,
    };
    const now = (): number => this.#machine.clock.nowMs();
    return {
      acquire: ({ namespace, key, ttlMs, holder, idempotencyKey, confirms }, waitMs, ending) => {
        const input = {
          namespace: namespace.join('.'),
          name: key,
          ttlMs,
          holder,
          idempotencyKey,
          confirms,
        };
        const sent = { ...input, waitMs, localTimeMs: now() };
        return this.#call(ending, ({ service }, life) => service.acquire(sent, caller, life));
      },
      giveUp: async ({ idempotencyKey }, ending) => {
        await this.#call(ending, ({ service }) => service.cancel({ idempotencyKey }, caller));
      },
      heartbeat: (renewals, ending) => {
        const sent = { renewals, localTimeMs: now() };
        return this.#call(ending, ({ service }) => service.heartbeat(sent, caller));
      },
      release: (request, ending) =>
        this.#call(ending, ({ service }) => service.release(request, caller)),
      unreachableSince: () => undefined,
    };
  }

  /** Asks one controller; after a failure the next call goes to another. */
  #call<T>(ending: Ending, ask: (to: Controller, life: CallerLife) => Promise<T>): Promise<T> {
    const { network, controllers } = this.#options;
    const to = controllers[this.#controller % controllers.length] as Controller;
    const gone = new AbortController();
    return new Promise((resolve, reject) => {
      const call = { to, fail: (error: Error): void => done(() => reject(error)) };
      const done = (settle: () => void): void => {
        this.#calls.delete(call);
        settle();
      };
      this.#calls.add(call);
      ending.onEnd((reason) => {
        done(() => reject(asError(reason)));
        network.send(this.process, to.process, () =>
          gone.abort(new Error('the connection is gone')),
        );
      });
      const carryOut = (): Promise<T> =>
        Promise.resolve().then(() => ask(to, this.#life(gone.signal)));
      network
        .call(this.process, to.process, carryOut, () => new UnreachableError())
        .then(
          (answer) => done(() => resolve(answer)),
          (error: unknown) => {
            this.#controller += 1;
            call.fail(asCallError(error));
          },
        );
    });
  }

  #life(signal: AbortSignal): CallerLife {
    const { world } = this.#options;
    const { process } = this;
    const { incarnation } = process;
    let lastMs = world.nowMs;
    return {
      signal,
      isAlive: () => {
        if (process.isRunning && process.incarnation === incarnation) lastMs = world.nowMs;
        return world.nowMs - lastMs < ALIVE_MS;
      },
    };
  }
}

function asCallError(error: unknown): Error {
  if (!(error instanceof LeaseError)) return asError(error);
  if (error.code === 'request.outcome_unknown') return new OutcomeUnknownError();
  return codedError(error.code, { message: error.message, details: error.details });
}
