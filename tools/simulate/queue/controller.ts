import type { LeaseStore } from '../../../libs/keys-core/src/grants/index.ts';
import { keyText } from '../../../libs/keys-core/src/grants/sql/requests.ts';
import { wakeWaiters } from '../../../libs/keys-core/src/grants/releasing.ts';
import { LeaseError } from '../../../libs/keys-core/src/kernel/errors.ts';
import type { Resource } from '../../../libs/keys-core/src/kernel/resource.ts';
import { createLeaseService } from '../../../libs/keys-core/src/leases/acquiring.ts';
import type { LeaseService } from '../../../libs/keys-core/src/leases/lease-types.ts';
import { createClockWatch } from '../../../libs/keys-core/src/postgres/clock/clock-watch.ts';
import type { Store } from '../../../libs/keys-core/src/postgres/open-store.ts';
import { createBootClock } from '../../../libs/service-kit/src/clock.ts';
import { createModelStore, unused } from '../database/model-store.ts';
import type { Statements } from '../database/statements.ts';
import type { Network } from '../engine/network.ts';
import type { Process } from '../engine/process.ts';
import type { Random } from '../engine/random.ts';
import type { World } from '../engine/world.ts';
import type { LineDatabase } from './line-database.ts';

const LOOK_EVERY_MS = 500;
/** How long a statement waits for a database that is not reached. */
const UNREACHED_MS = 700;
const DATABASE = 'database';

export interface ControllerOptions {
  readonly world: World;
  readonly network: Network;
  readonly process: Process;
  readonly database: LineDatabase;
  readonly statements: Statements;
  /** Sends a hint to the other controllers. */
  readonly tell: (from: Controller, topic: string) => void;
}

/** A controller: the product's service of leases, on a model of its database. */
export class Controller {
  readonly process: Process;
  readonly #options: ControllerOptions;
  readonly #random: Random;
  #listeners = new Map<string, Set<() => void>>();
  #service: LeaseService | undefined;

  constructor(options: ControllerOptions) {
    this.#options = options;
    this.process = options.process;
    this.#random = options.world.random.fork(options.process.name);
    options.world.in(0, this.process, () => this.#open());
  }

  get service(): LeaseService {
    if (this.#service === undefined) throw new LeaseError('controller.stopping');
    return this.#service;
  }

  /** Begins again, and remembers nothing. */
  restart(afterMs: number): void {
    this.process.kill();
    this.#service = undefined;
    this.#options.world.in(afterMs, undefined, () => {
      if (this.process.isUp) return;
      this.process.start();
      this.#options.world.in(0, this.process, () => this.#open());
    });
  }

  /** A hint of another controller. */
  deliver(topic: string): void {
    for (const listener of [...(this.#listeners.get(topic) ?? [])]) listener();
  }

  #open(): void {
    const { statements, tell } = this.#options;
    this.#listeners = new Map();
    const clock = createBootClock(() => this.process.machine.nowMs());
    const clockWatch = createClockWatch({ onJump: () => undefined });
    const pool = statements.pool((work) => this.#carry(work));
    const random = this.#random;
    const store = createModelStore({
      ...{ pool, clock, clockWatch, datacenter: 'local' },
      ids: {
        uuid: () => random.uuid(),
        alphanumeric: (length) => 'a'.repeat(length),
        random: () => random.next(),
      },
      hints: {
        on: (topic, fn) => this.#listen(topic, fn),
        notify: (...topics) => {
          for (const topic of topics) {
            this.deliver(topic);
            tell(this, topic);
          }
        },
        next: unused,
        close: unused,
      },
    });
    const look = (): void => {
      void this.#readClock(store);
      this.process.after(LOOK_EVERY_MS, look);
    };
    look();
    const leases = this.#leasesOn(store);
    this.#service = createLeaseService({ store, leases, face: 'lease' });
  }

  #listen(topic: string, fn: () => void): () => void {
    const listeners = this.#listeners.get(topic) ?? new Set();
    this.#listeners.set(topic, listeners.add(fn));
    return () => void listeners.delete(fn);
  }

  #leasesOn(store: Store): LeaseStore {
    const { database } = this.#options;
    const { leases } = database;
    const release: LeaseStore['release'] = async (face, request) => {
      const freed: Parameters<typeof wakeWaiters>[1][] = [];
      const outcome = await this.#carry(() => {
        const resource: Resource | undefined = leases.past(request.leaseId);
        const answer = leases.release(face, request);
        const isFreed = answer === 'released' && resource !== undefined;
        if (isFreed) freed.push({ ...resource, nextTicketId: database.nextTicketId(resource) });
        return Promise.resolve(answer);
      });
      for (const one of freed) wakeWaiters(store, one);
      return outcome;
    };
    return {
      isPressed: () => false,
      isAsked: () => false,
      // A grant is judged as fast as a read here.
      refusal: () => Promise.resolve(undefined),
      release,
      grant: async (request) => {
        const { principal, idempotencyKey = '' } = request;
        const sentAtMs = store.clock.nowMs();
        const belief = store.clockWatch.belief(sentAtMs);
        const answer = await this.#carry(() => {
          const outcome = database.grant(request, keyText({ principal, idempotencyKey }), belief);
          return Promise.resolve({ outcome, asOf: leases.machine.wallMs() });
        });
        store.clockWatch.observe(answer.asOf, sentAtMs, store.clock.nowMs());
        return answer.outcome;
      },
      renew: (face, request) => this.#carry(() => Promise.resolve(leases.renew(face, request))),
      renewAll: (face, requests) =>
        this.#carry(() => Promise.resolve(requests.map((one) => leases.renew(face, one)))),
    };
  }

  async #readClock({ clock, clockWatch }: Store): Promise<void> {
    const sentAtMs = clock.nowMs();
    const { machine } = this.#options.database.leases;
    const asOf = await this.#carry(() => Promise.resolve(machine.wallMs())).catch(() => undefined);
    if (asOf !== undefined) clockWatch.observe(asOf, sentAtMs, clock.nowMs());
  }

  /** To the database and back: it may not be reached, and in bad weather an answer is lost. */
  async #carry<T>(work: () => Promise<T>): Promise<T> {
    const { world, network } = this.#options;
    const random = this.#random;
    const { weather } = network;
    const delayMs = (): number => weather.delayMs[0] + random.next() * weather.delayMs[1];
    await world.sleep(delayMs(), this.process);
    if (!network.reaches(this.process.name, DATABASE)) {
      await world.sleep(UNREACHED_MS, this.process);
      throw new LeaseError('store.unavailable');
    }
    const answer = await work();
    await world.sleep(delayMs(), this.process);
    if (random.chance(weather.lostShare / 5)) throw new LeaseError('request.outcome_unknown');
    return answer;
  }
}
