import { PHASES } from '@leasehold/keys-core';
import { FilterMenu } from '~/ui/menus/filter-menu.tsx';
import { PHASE_LOOKS } from '../looks.tsx';
import { ANY_PHASE } from './phase-search.ts';
import type { Search } from '~/lib/search/search.ts';
import { withField } from '~/lib/search/search-text.ts';

const OPTIONS = [
  ...PHASES.map((value) => ({ value, label: PHASE_LOOKS[value].label })),
  { value: ANY_PHASE, label: 'Any, also long over' },
];

/**
 * The phase that a list is filtered by, as a menu over the search's `phase:`. Unless one is chosen, what
 * ended long ago is left out.
 */
export function PhaseFilter({
  label,
  state,
}: {
  readonly label: string;
  readonly state: {
    readonly q: string;
    readonly search: Search;
    readonly setQ: (q: string) => void;
  };
}) {
  return (
    <FilterMenu
      label={label}
      value={state.search.fields['phase']}
      unset="In use or recently"
      options={OPTIONS}
      onChange={(phase) => state.setQ(withField(state.q, 'phase', phase))}
    />
  );
}
