import type { Inputs, Outputs } from '~/lib/api/api.ts';
import type { Search } from '~/lib/search.ts';

/** The fields of the reservations' search, beside a part of a name. */
export const RESERVATION_FIELDS = ['namespace', 'state'] as const;

/** The states that the list can be asked for: there are no rows for others. */
export const LISTED_STATES = ['active', 'moved'] as const;

const PAGE_ROWS = 100;

/** The input of `reservations.list` for an address. A bare word is a part of the name. */
export function reservationListInput(wanted: {
  readonly search: Search;
  readonly after: string | null;
}): Inputs['reservations']['list'] {
  const { name, contains = name, fields } = wanted.search;
  const { namespace } = fields;
  const state = LISTED_STATES.find((known) => known === fields['state']);
  return { limit: PAGE_ROWS, cursor: wanted.after ?? undefined, contains, namespace, state };
}

/** What the search asks for that no reservation can have; the list is not read then, and this says why. */
export function reservationSearchProblems(search: Search): readonly string[] {
  const { state } = search.fields;
  return state === undefined || LISTED_STATES.some((known) => known === state)
    ? search.problems
    : [...search.problems, `state: is one of ${LISTED_STATES.join(', ')}`];
}

/** A reservation as its own datacenter returns it, over the wire. */
export type ReservationItem = Outputs['reservations']['list']['items'][number];

/** A key with its whole chain, over the wire. */
export type ReservationDetail = NonNullable<Outputs['reservations']['get']>;

/** A link of a chain. */
export type ReservationLink = ReservationDetail['links'][number];
