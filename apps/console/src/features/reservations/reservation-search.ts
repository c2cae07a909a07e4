import type { Inputs } from '~/lib/api/api.ts';
import type { Search } from '~/lib/search/search.ts';

/** What the search of reservations knows beside how a name begins. */
export const RESERVATION_FIELDS = ['namespace', 'state'] as const;

/** The states that the list can be asked for: of others there is no row. */
export const LISTED_STATES = ['active', 'moved'] as const;

const PAGE_ROWS = 100;

/** What is asked of `reservations.list` for what the address says. A bare word begins the name. */
export function reservationListInput(wanted: {
  readonly search: Search;
  readonly after: string | null;
}): Inputs['reservations']['list'] {
  const { name, prefix = name, fields } = wanted.search;
  const { namespace } = fields;
  const state = LISTED_STATES.find((known) => known === fields['state']);
  return {
    limit: PAGE_ROWS,
    ...(wanted.after === null ? {} : { cursor: wanted.after }),
    ...(prefix === undefined ? {} : { prefix }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(state === undefined ? {} : { state }),
  };
}

/** What the search asks for that no reservation can have; nothing is asked then, and this says why. */
export function reservationSearchProblems(search: Search): readonly string[] {
  const { state } = search.fields;
  return state === undefined || LISTED_STATES.some((known) => known === state)
    ? search.problems
    : [...search.problems, `state: is one of ${LISTED_STATES.join(', ')}`];
}
