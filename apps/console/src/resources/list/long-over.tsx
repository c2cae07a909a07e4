'use client';

import { Button } from '@mantine/core';
import { ANY_PHASE } from './phase-search.ts';
import { withField } from '~/lib/search/search-text.ts';
import type { ListState } from '~/lib/search/use-list-state.ts';

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
      Show {what} that ended long ago
    </Button>
  );
}
