import { LeaseError } from '../../../libs/keys-core/src/kernel/errors.ts';
import {
  reservationKeyText,
  type ReservationPointer,
} from '../../../libs/keys-core/src/kernel/reservation.ts';
import type { ReservationStore } from '../../../libs/keys-core/src/reservations/reservation-store.ts';
import type { Network } from '../engine/network.ts';
import type { Process } from '../engine/process.ts';
import type { World } from '../engine/world.ts';

const ANSWER_MS = 1_500;

interface Written<Value> {
  readonly value: Value;
  readonly atMs: number;
}

/** An etcd: linearizable, with a replica beside each datacenter that is behind by a while. */
export class SharedStore {
  readonly process: Process;
  readonly #world: World;
  readonly #network: Network;
  readonly #homes = new Map<string, Written<string>>();
  readonly #pointers = new Map<string, Written<ReservationPointer>>();

  constructor(world: World, network: Network, process: Process) {
    this.#world = world;
    this.#network = network;
    this.process = process;
  }

  /** The first reservation of a key, and since when it has been there. */
  homeOf(key: string): Written<string> | undefined {
    return this.#homes.get(key);
  }

  /** The store as the controllers of one datacenter reach it. */
  from(process: Process, lagMs: number): ReservationStore {
    const ask = <T>(carryOut: () => T): Promise<T> => this.#ask(process, carryOut);
    const nearby = <T>(written: Written<T> | undefined): T | undefined =>
      written !== undefined && written.atMs + lagMs <= this.#world.nowMs
        ? written.value
        : undefined;
    const isBehind = this.#world.has('nearby-nothing-believed');
    return {
      kind: 'etcd',
      put: (key, reservationId) =>
        ask(() => {
          const text = reservationKeyText(key);
          const known = this.#homes.get(text);
          if (known !== undefined && !this.#world.has('home-overwritten')) {
            const outcome = known.value === reservationId ? 'reserved' : 'existing';
            return { outcome, reservationId: known.value };
          }
          this.#homes.set(text, { value: reservationId, atMs: this.#world.nowMs });
          this.#world.trace(() => `${text} is reserved as ${reservationId.slice(0, 12)}`);
          return { outcome: 'reserved', reservationId };
        }),
      read: (key) =>
        ask(() => {
          const written = this.#homes.get(reservationKeyText(key));
          return isBehind ? nearby(written) : written?.value;
        }),
      readNearby: (key) => ask(() => nearby(this.#homes.get(reservationKeyText(key)))),
      putPointer: (pointer) =>
        ask(() => {
          const known = this.#pointers.get(pointer.fromId);
          if (known !== undefined) return known.value;
          this.#pointers.set(pointer.fromId, { value: pointer, atMs: this.#world.nowMs });
          return pointer;
        }),
      readPointer: (fromId) => ask(() => this.#pointers.get(fromId)?.value),
      readPointerNearby: (fromId) => ask(() => nearby(this.#pointers.get(fromId))),
      close: () => Promise.resolve(),
    };
  }

  #ask<T>(from: Process, carryOut: () => T): Promise<T> {
    const unreachable = (): LeaseError => new LeaseError('reservation.store_unreachable');
    const late = new Promise<never>((_resolve, reject) => {
      from.after(ANSWER_MS, () => reject(unreachable()));
    });
    const answer = this.#network.call(
      ...([from, this.process] as const),
      () => Promise.resolve().then(carryOut),
      unreachable,
    );
    return Promise.race([answer, late]);
  }
}
