/** The input of the lists of keys, leases and environments, from the address. Pure. */
import type { ListState } from '~/lib/list-state.ts';
import type { Search } from '~/lib/search.ts';
import { phaseInput, phaseProblems, RECENT_GRANTS_MS } from './phase-search.ts';

export const GRANT_SORTS = ['name', 'grantedAt', 'expiresAt'] as const;
export type GrantSort = (typeof GRANT_SORTS)[number];

/** The part of the address that the input of a list depends on. */
export type AskedState = Pick<ListState<GrantSort>, 'search' | 'sort' | 'direction' | 'after'>;

const PAGE_ROWS = 100;
/** The values of `is:`. */
const KINDS = ['waited', 'overdue'] as const;
/** The value of `own:` that leaves out Leasehold's own leases. */
const NO = 'no';
/** A whole id of a grant. */
export const LEASE_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/iu;

/** What all three lists ask for. Without a phase, what ended longer than `recentMs` ago is left out. */
export function grantListInput(state: AskedState, recentMs: number = RECENT_GRANTS_MS) {
  const { search, sort, direction, after } = state;
  const { name, contains, fields } = search;
  const { holder, lease, own } = fields;
  const is = KINDS.find((known) => known === fields['is']);
  return {
    ...{ limit: PAGE_ROWS, cursor: after ?? undefined, sort, direction },
    ...{ name, contains, holder, leaseId: lease },
    // What is waited for or overdue is so now, however long ago it was granted.
    ...(is === undefined
      ? phaseInput(search, recentMs)
      : { ...phaseInput(search, recentMs), is, endedWithinMs: undefined }),
    ...(own === NO ? { withoutOwn: true } : {}),
  };
}

/** What the search asks for that no grant can have; the list is not read then, and this says why. */
export function grantSearchProblems(search: Search): readonly string[] {
  const { lease, is, own } = search.fields;
  return [
    ...search.problems,
    ...phaseProblems(search),
    ...(is === undefined || KINDS.some((known) => known === is)
      ? []
      : [`is: is one of ${KINDS.join(', ')}`]),
    ...(own === undefined || own === NO ? [] : [`own: is ${NO}, or left out`]),
    ...(lease === undefined || LEASE_ID.test(lease) ? [] : ['lease: needs a whole lease id']),
  ];
}
