import { Button, Group } from '@mantine/core';
import type { ReactNode } from 'react';
import type { ListState } from '~/lib/list-state.ts';
import { withField } from '~/lib/search.ts';
import { EmptyState } from '~/ui/states.tsx';
import { ANY_PHASE } from './phase-search.ts';

/** For an empty list: because of the search, or without one, which `children` explains. */
export function NothingFound({
  what,
  state,
  children,
}: {
  /** `leases` */
  readonly what: string;
  readonly state: Pick<ListState<string>, 'q' | 'search' | 'setQ' | 'isFiltered' | 'after'>;
  readonly children: ReactNode;
}) {
  if (!state.isFiltered && state.after === null) return children;
  return (
    <EmptyState
      title={`No ${what} match`}
      action={
        <Group gap="xs" justify="center">
          <Button variant="default" onClick={() => state.setQ('')}>
            Clear the search
          </Button>
          {state.search.fields['phase'] === undefined && <LongOver what={what} state={state} />}
        </Group>
      }
    >
      The search finds any part of a name with its namespace. Write{' '}
      <span className="mono">&quot;name&quot;</span> for a whole name, and{' '}
      <span className="mono">field:value</span> for other fields.
    </EmptyState>
  );
}

/** Lists what ended long ago too. */
export function LongOver({
  what,
  state,
}: {
  /** `leases` */
  readonly what: string;
  readonly state: Pick<ListState<string>, 'q' | 'setQ'>;
}) {
  return (
    <Button variant="default" onClick={() => state.setQ(withField(state.q, 'phase', ANY_PHASE))}>
      Show {what} that ended earlier
    </Button>
  );
}
