import { LeaseError } from '../../../libs/keys-core/src/kernel/errors.ts';
import { reservationKeyOf } from '../../../libs/keys-core/src/kernel/reservation.ts';
import type { Resource } from '../../../libs/keys-core/src/kernel/resource.ts';
import { NotAtHome } from '../../../libs/keys-core/src/keys/index.ts';
import type { ConnectResult, NamedConnect } from '../../../libs/keys-core/src/keys/key-types.ts';
import { createClockWatch } from '../../../libs/keys-core/src/postgres/clock/clock-watch.ts';
import type { GivenUpDatacenters } from '../../../libs/keys-core/src/reservations/given-up.ts';
import type {
  Peer,
  Peers,
  ReservationService,
} from '../../../libs/keys-core/src/reservations/reservation-types.ts';
import { createReservationService } from '../../../libs/keys-core/src/reservations/reservation-service.ts';
import { createRememberingStore } from '../../../libs/keys-core/src/reservations/reservation-store.ts';
import { createModelStore, unused } from '../database/model-store.ts';
import type { Network } from '../engine/network.ts';
import type { Process } from '../engine/process.ts';
import type { Random } from '../engine/random.ts';
import type { World } from '../engine/world.ts';
import type { HomeDatabase } from './home-database.ts';
import { BELIEVED, homeStatements } from './home-statements.ts';
import type { SharedStore } from './shared-store.ts';

const ANSWER_MS = 2_500;
export const LADDER = { renewAfterMs: 1_000, softAfterMs: 1_500, hardAfterMs: 2_000, ttlMs: 3_000 };
const CALLER = { principal: 'p', actor: 'somebody', role: 'client', namespaces: null };

export interface DatacenterOptions {
  readonly world: World;
  readonly network: Network;
  readonly process: Process;
  readonly database: HomeDatabase;
  readonly shared: SharedStore;
  /** How far the replica of the store beside it is behind. */
  readonly lagMs: number;
  readonly others: () => readonly Datacenter[];
  readonly givenUp: GivenUpDatacenters;
  /** Called with each grant of a key here. */
  readonly onGranted: (key: Resource, leaseId: string) => void;
}

/**
 * A datacenter: the product's service of reservations, on models of its database and of etcd. It has two
 * controllers, which remember different things.
 */
export class Datacenter {
  readonly process: Process;
  readonly database: HomeDatabase;
  readonly #options: DatacenterOptions;
  readonly #random: Random;
  #isLost = false;
  #services: readonly ReservationService[];

  constructor(options: DatacenterOptions) {
    this.#options = options;
    this.process = options.process;
    this.database = options.database;
    this.#random = options.world.random.fork(options.process.name);
    this.#services = this.#openAll();
  }

  get name(): string {
    return this.process.name;
  }

  /** Of one of its controllers. */
  get service(): ReservationService {
    return this.#random.pick(this.#services);
  }

  /** Everything in it ends, and does not come back. */
  lose(): void {
    this.#isLost = true;
    this.process.kill();
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** Its controllers begin again, and remember nothing. */
  restart(afterMs: number): void {
    this.process.kill();
    this.#options.world.in(afterMs, undefined, () => {
      if (this.process.isUp || this.#isLost) return;
      this.process.start();
      this.#services = this.#openAll();
    });
  }

  connect(
    key: Resource,
    isSpawning: boolean,
    elsewhere: string | undefined,
  ): Promise<ConnectResult> {
    const { signal } = new AbortController();
    const { namespace, name } = key;
    const spawn = isSpawning ? { program: 'room', args: [], env: {} } : undefined;
    const input = {
      key: { name, namespace, tag: '' },
      spawn,
      waitMs: 0,
      waitFor: 'granted',
    } as const;
    return this.service.connect(input, CALLER, signal, { datacenter: elsewhere });
  }

  async move({ namespace, name }: Resource, toDatacenter: string): Promise<void> {
    const key = reservationKeyOf({ namespace, name });
    await this.service.move({ key, toDatacenter, reason: 'r' }, CALLER);
  }

  #openAll(): ReservationService[] {
    return [this.#open(), this.#open()];
  }

  #open(): ReservationService {
    const { world, database, shared, lagMs, givenUp } = this.#options;
    const random = this.#random;
    const pool = homeStatements(world, database).pool(async (work) => {
      await world.sleep(random.next(), this.process);
      const answer = await work();
      await world.sleep(random.next(), this.process);
      return answer;
    });
    const store = createModelStore({
      ...{ pool, datacenter: this.name, clockWatch: createClockWatch({ onJump: () => undefined }) },
      clock: { nowMs: () => this.process.machine.nowMs(), at: unused },
      ids: { uuid: () => random.uuid(), alphanumeric: unused, random: unused },
      hints: { notify: () => undefined, on: unused, next: unused, close: unused },
    });
    return createReservationService({
      store,
      peers: this.#peers(),
      givenUp,
      reservations: createRememberingStore(shared.from(this.process, lagMs), {
        store,
        onForgotten: () => undefined,
      }),
      keys: {
        connect: (input) =>
          pool.$transaction(() => Promise.resolve().then(() => this.#grant(input))),
        connectAgain: () => Promise.resolve(undefined),
        refuse: (_input, _caller, error) => {
          throw error;
        },
      },
    });
  }

  /** What a connect does in the database of the key's home. */
  #grant({ key, spawn, homeReservation = '' }: NamedConnect): ConnectResult {
    const { database, onGranted } = this.#options;
    const resource: Resource = { face: 'key', namespace: key.namespace, name: key.name };
    if (!database.isAtHome(resource, homeReservation)) throw new NotAtHome();
    const held = database.leases.read(resource);
    const isHeld = database.leases.isHeld(resource);
    if (!isHeld && spawn === undefined) throw new LeaseError('key.unheld');
    let leaseId = held?.leaseId ?? '';
    if (!isHeld) {
      leaseId = this.#random.uuid();
      const holder = `a backend in ${this.name}`;
      const asked = {
        tag: '',
        comment: null,
        metadata: null,
        actor: 'a',
        principal: 'p',
        ladder: LADDER,
      };
      const granting = database.leases.grant({ ...resource, ...asked, leaseId, holder }, BELIEVED);
      if (!('granted' in granting)) throw new LeaseError('grant.contended');
      database.rowHomes.set(resource.name, homeReservation);
      onGranted(resource, leaseId);
    }
    // Callers look at nothing else of it.
    return { key, backendId: leaseId, leaseId, spawned: !isHeld } as ConnectResult;
  }

  #peers(): Peers {
    const others = this.#options.others;
    return {
      get names() {
        return others().map(({ name }) => name);
      },
      get: (name) => {
        const other = others().find((one) => one.name === name && one !== this);
        return other === undefined ? undefined : this.#peer(other);
      },
    };
  }

  #peer(other: Datacenter): Peer {
    const ask = <T>(carryOut: (service: ReservationService) => Promise<T>): Promise<T> =>
      this.#ask(other, carryOut);
    return {
      datacenter: other.name,
      assertReachable: () => undefined,
      connect: (input, caller, signal) => ask((there) => there.connectHere(input, caller, signal)),
      reservationStatus: (id, key) => ask((there) => there.reservationStatus(id, key)),
      move: (input, caller) => ask((there) => there.moveHere(input, caller)),
    };
  }

  #ask<T>(other: Datacenter, carryOut: (service: ReservationService) => Promise<T>): Promise<T> {
    const late = new Promise<never>((_resolve, reject) => {
      this.process.after(ANSWER_MS, () => reject(new LeaseError('request.outcome_unknown')));
    });
    const details = { datacenter: other.name };
    const answer = this.#options.network.call(
      ...([this.process, other.process] as const),
      () => Promise.resolve().then(() => carryOut(other.service)),
      () => new LeaseError('reservation.datacenter_unreachable', undefined, { details }),
    );
    return Promise.race([answer, late]);
  }
}
