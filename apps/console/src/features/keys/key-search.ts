import type { Inputs } from '~/lib/api/api.ts';
import { firstOf } from '~/lib/page-params.ts';
import { parseSearch } from '~/lib/search/search.ts';
import { GRANT_SORTS, grantListInput, type AskedState } from '~/resources/list/grant-search.ts';

/** What the search of keys knows beside names. */
export const KEY_FIELDS = ['holder', 'phase', 'tag', 'drone', 'namespace', 'lease'] as const;

/** What is asked of `keys.list` for what the address says. A namespace is with its children. */
export function keyListInput(state: AskedState): NonNullable<Inputs['keys']['list']> {
  const { tag, drone, namespace } = state.search.fields;
  return {
    ...grantListInput(state),
    ...(tag === undefined ? {} : { tag }),
    ...(drone === undefined ? {} : { droneId: drone }),
    ...(namespace === undefined ? {} : { namespace, includeChildren: true }),
  };
}

/** What an address says of the list, for a server: as `useListState` reads it. */
export function keyListStateOf(
  params: Readonly<Record<string, string | string[] | undefined>>,
): AskedState {
  const text = (name: string): string | undefined => firstOf(params[name]);
  return {
    search: parseSearch(text('q') ?? '', KEY_FIELDS),
    sort: GRANT_SORTS.find((known) => known === text('sort')) ?? 'name',
    direction: text('dir') === 'desc' ? 'desc' : 'asc',
    after: text('after') ?? null,
  };
}
