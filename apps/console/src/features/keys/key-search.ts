import type { Inputs } from '~/lib/api/api.ts';
import { firstOf } from '~/lib/routes.ts';
import { parseSearch } from '~/lib/search.ts';
import { type AskedState, GRANT_SORTS, grantListInput } from '~/resources/list/grant-search.ts';

/** The fields of the keys' search, beside names. */
export const KEY_FIELDS = ['holder', 'phase', 'tag', 'drone', 'namespace', 'lease', 'is'] as const;

/** The input of `keys.list` for an address. A namespace includes its children. */
export function keyListInput(state: AskedState): NonNullable<Inputs['keys']['list']> {
  const { tag, drone, namespace } = state.search.fields;
  return {
    ...grantListInput(state),
    ...{ tag, droneId: drone },
    ...(namespace === undefined ? {} : { namespace, includeChildren: true }),
  };
}

/** The state of the list in an address, for the server: as `useListState` reads it. */
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
