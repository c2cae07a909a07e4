'use client';

import { HydrationBoundary, type DehydratedState } from '@tanstack/react-query';
import type { ReactNode } from 'react';

/** The data that came with pages, and the same data dated by when it arrived here. */
const arrived = new WeakMap<DehydratedState, DehydratedState>();

/**
 * Dates the data that came with a page by its arrival, by this machine's clock. The server dates it
 * by its own clock: taken for this one, data of a page that Back leads to would replace newer data if
 * this clock is behind, and pass for old if it is ahead.
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
