import type { Outputs } from '~/lib/api/api.ts';

/** A reservation as its own datacenter returns it, over the wire. */
export type ReservationItem = Outputs['reservations']['list']['items'][number];

/** A key with its whole chain, over the wire. */
export type ReservationDetail = NonNullable<Outputs['reservations']['get']>;

/** A link of a chain. */
export type ReservationLink = ReservationDetail['links'][number];
