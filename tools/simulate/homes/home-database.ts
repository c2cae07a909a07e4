/** The reservations of one datacenter, as `reservations/sql` keeps them, beside its leases. */
import type { Resource } from '../../../libs/keys-core/src/kernel/resource.ts';
import type { ReservationPointer } from '../../../libs/keys-core/src/kernel/reservation.ts';
import type { LeaseDatabase } from '../database/lease-database.ts';
import type { World } from '../engine/world.ts';

export interface ReservationRow {
  readonly key: string;
  state: 'active' | 'moved';
}

export class HomeDatabase {
  readonly datacenter: string;
  readonly leases: LeaseDatabase;
  readonly reservations = new Map<string, ReservationRow>();
  readonly pointers = new Map<string, ReservationPointer>();
  /** The first reservations of keys, as far as they are remembered here. */
  readonly homes = new Map<string, string>();
  /** The reservation that a key's row names. */
  readonly rowHomes = new Map<string, string>();
  readonly #world: World;

  constructor(world: World, datacenter: string, leases: LeaseDatabase) {
    this.#world = world;
    this.datacenter = datacenter;
    this.leases = leases;
  }

  /** Whether a key may be granted here under a reservation: as `isAtHome` of `grants/sql/grant.ts`. */
  isAtHome({ name }: Resource, reservationId: string): boolean {
    const reservation = this.reservations.get(reservationId);
    if (this.#world.has('left-home-grants')) return reservation !== undefined;
    const rowHome = this.rowHomes.get(name) ?? reservationId;
    return reservation?.state === 'active' && rowHome === reservationId;
  }

  /** The active reservations of a key, which should be one at most in all datacenters together. */
  activeOf(key: string): string[] {
    return [...this.reservations].flatMap(([id, row]) =>
      row.key === key && row.state === 'active' ? [id] : [],
    );
  }
}
