import { PHASES, type Phase } from '@leasehold/keys-core';
import type { Inputs } from '~/lib/api.ts';
import type { ListState } from '~/lib/use-list-state.ts';

/** What the search of keys knows beside names. */
export const KEY_FIELDS = ['holder', 'phase', 'tag', 'drone', 'namespace'] as const;

export type KeySort = 'name' | 'grantedAt' | 'expiresAt';

/** What is asked of `keys.list` for what the address says. */
export function keyListInput(state: ListState<KeySort>): Inputs['keys']['list'] {
  const { name, prefix, fields } = state.search;
  const { holder, tag, drone, namespace } = fields;
  const phase = PHASES.find((known: Phase) => known === fields['phase']);
  return {
    limit: 100,
    sort: state.sort,
    direction: state.direction,
    ...(state.after === null ? {} : { cursor: state.after }),
    ...(name === undefined ? {} : { name }),
    ...(prefix === undefined ? {} : { prefix }),
    ...(holder === undefined ? {} : { holder }),
    ...(tag === undefined ? {} : { tag }),
    ...(drone === undefined ? {} : { droneId: drone }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(phase === undefined ? {} : { phase }),
  };
}
