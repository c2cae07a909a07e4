import type { Inputs } from '~/lib/api/api.ts';
import { phaseInput, phaseProblems, RECENT_GRANTS_MS } from '~/resources/list/phase-search.ts';
import { parseSearch } from '~/lib/search/search.ts';
import type { ListState } from '~/lib/search/use-list-state.ts';

/** What the search of keys knows beside names. */
export const KEY_FIELDS = ['holder', 'phase', 'tag', 'drone', 'namespace', 'lease'] as const;

export const KEY_SORTS = ['name', 'grantedAt', 'expiresAt'] as const;
export type KeySort = (typeof KEY_SORTS)[number];

const PAGE_ROWS = 100;

/** What is asked of `keys.list` for what the address says. A namespace is with its children. */
export function keyListInput(
  state: Pick<ListState<KeySort>, 'search' | 'sort' | 'direction' | 'after'>,
): NonNullable<Inputs['keys']['list']> {
  const { name, prefix, fields } = state.search;
  const { holder, tag, drone, namespace, lease } = fields;
  return {
    limit: PAGE_ROWS,
    sort: state.sort,
    direction: state.direction,
    ...(state.after === null ? {} : { cursor: state.after }),
    ...(name === undefined ? {} : { name }),
    ...(prefix === undefined ? {} : { prefix }),
    ...(holder === undefined ? {} : { holder }),
    ...(tag === undefined ? {} : { tag }),
    ...(drone === undefined ? {} : { droneId: drone }),
    ...(namespace === undefined ? {} : { namespace, includeChildren: true }),
    ...(lease === undefined ? {} : { leaseId: lease }),
    ...phaseInput(state.search, RECENT_GRANTS_MS),
  };
}

/** What an address says of the list, for a server: as `useListState` reads it. */
export function keyListStateOf(
  params: Readonly<Record<string, string | string[] | undefined>>,
): Parameters<typeof keyListInput>[0] {
  const text = (name: string): string | undefined => [params[name]].flat()[0];
  return {
    search: parseSearch(text('q') ?? '', KEY_FIELDS),
    sort: KEY_SORTS.find((known) => known === text('sort')) ?? 'name',
    direction: text('dir') === 'desc' ? 'desc' : 'asc',
    after: text('after') ?? null,
  };
}

/** What the search asks for that no key can have; nothing is found then, and this says why. */
export function keySearchProblems(search: ListState<KeySort>['search']): readonly string[] {
  const { lease } = search.fields;
  return [
    ...search.problems,
    ...phaseProblems(search),
    ...(lease === undefined || UUID.test(lease) ? [] : ['lease: is a whole lease id']),
  ];
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/iu;
