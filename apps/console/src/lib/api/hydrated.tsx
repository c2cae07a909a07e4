'use client';

import { HydrationBoundary, type DehydratedState } from '@tanstack/react-query';
import type { ReactNode } from 'react';

/** What came with pages, by when it came here. */
const arrived = new WeakMap<DehydratedState, DehydratedState>();

/**
 * Data that came with a page, as of when the page came, by this machine's clock. The server dates it by
 * its own: taken for this one's, data of a page that Back leads to again would replace newer data where
 * this clock is behind, and pass for old where it is ahead.
 */
export function Hydrated({
  state,
  children,
}: {
  readonly state: DehydratedState;
  readonly children: ReactNode;
}) {
  return <HydrationBoundary state={arrivedNow(state)}>{children}</HydrationBoundary>;
}

function arrivedNow(state: DehydratedState): DehydratedState {
  if (typeof window === 'undefined') return state;
  const known = arrived.get(state);
  if (known !== undefined) return known;
  const dataUpdatedAt = Date.now();
  const queries = state.queries.map((query) => ({
    ...query,
    state: { ...query.state, dataUpdatedAt },
  }));
  const dated = { ...state, queries };
  arrived.set(state, dated);
  return dated;
}
