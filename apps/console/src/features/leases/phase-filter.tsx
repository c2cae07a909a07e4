'use client';

import { PHASES } from '@leasehold/keys-core';
import { FilterMenu } from '~/components/filter-menu.tsx';
import { PHASE_LOOKS } from '~/components/text/phase-badge.tsx';
import { ANY_PHASE } from '~/lib/phase-search.ts';
import type { Search } from '~/lib/search.ts';
import { withField } from '~/lib/search-text.ts';

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
      onChange={(phase) => {
        state.setQ(withField(state.q, 'phase', phase));
      }}
    />
  );
}
