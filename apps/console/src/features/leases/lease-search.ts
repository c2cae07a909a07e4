import type { Inputs } from '~/lib/api/api.ts';
import type { Search } from '~/lib/search/search.ts';
import type { ListState } from '~/lib/search/use-list-state.ts';
import { phaseInput, phaseProblems, RECENT_GRANTS_MS } from '~/resources/list/phase-search.ts';

/** What the search of leases knows beside names. */
export const LEASE_FIELDS = ['holder', 'phase', 'namespace', 'lease'] as const;

export const LEASE_SORTS = ['name', 'grantedAt', 'expiresAt'] as const;
export type LeaseSort = (typeof LEASE_SORTS)[number];

/** Of lists of leases and of environments. */
const PAGE_ROWS = 100;

/** What is asked of `leases.list` for what the address says. */
export function leaseListInput(
  state: Pick<ListState<LeaseSort>, 'search' | 'sort' | 'direction' | 'after'>,
  recentMs: number = RECENT_GRANTS_MS,
): NonNullable<Inputs['leases']['list']> {
  const { name, prefix, fields } = state.search;
  const { holder, namespace, lease } = fields;
  return {
    limit: PAGE_ROWS,
    sort: state.sort,
    direction: state.direction,
    ...(state.after === null ? {} : { cursor: state.after }),
    ...(name === undefined ? {} : { name }),
    ...(prefix === undefined ? {} : { prefix }),
    ...(holder === undefined ? {} : { holder }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(lease === undefined ? {} : { leaseId: lease }),
    ...phaseInput(state.search, recentMs),
  };
}

/** What the search asks for that no lease can have; nothing is asked then, and this says why. */
export function leaseSearchProblems(search: Search): readonly string[] {
  const { lease } = search.fields;
  return [
    ...search.problems,
    ...phaseProblems(search),
    ...(lease === undefined || UUID.test(lease) ? [] : ['lease: is a whole lease id']),
  ];
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/iu;
