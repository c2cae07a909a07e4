import type { EventChanges } from '@leasehold/keys-core';
import { useQueryClient, type QueryClient } from '@tanstack/react-query';
import { useEffect, useRef, type ReactNode } from 'react';
import { useSignal } from '../signal.ts';
import { followChanges } from './changes-stream.ts';
import { isConcerned } from './concerned.ts';
import { missed, pause } from './live-state.ts';

/** However many messages come, what they concern is read again no more often than this. */
const REFRESH_EVERY_MS = 1_000;
/** A message may come this much early or late, without costing a whole second. */
const JITTER_MS = 100;

/** Keeps every query below fresh while the page is visible. */
export function LiveProvider({ children }: { readonly children: ReactNode }) {
  const queryClient = useQueryClient();
  useEffect(() => keepFresh(queryClient), [queryClient]);
  useRefreshAfterPause(queryClient);
  return children;
}

/** Reads again what changes concern. */
function keepFresh(queryClient: QueryClient): () => void {
  let waiting: EventChanges[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  let refreshedAtMs = Number.NEGATIVE_INFINITY;

  const refresh = (): void => {
    timer = undefined;
    const all = waiting;
    waiting = [];
    // A dialog may have opened meanwhile.
    if (isAway()) {
      miss(all);
      return;
    }
    refreshedAtMs = performance.now();
    void queryClient.invalidateQueries({
      predicate: ({ queryKey, state, meta }) =>
        meta?.['isOnTimer'] !== true &&
        all.some((changes) => isConcerned({ queryKey, data: state.data }, changes)),
    });
  };
  const changed = (changes: EventChanges): void => {
    if (isAway()) {
      miss([changes]);
      return;
    }
    waiting.push(changes);
    const waitMs = refreshedAtMs + REFRESH_EVERY_MS - JITTER_MS - performance.now();
    if (waitMs > 0) timer ??= setTimeout(refresh, waitMs);
    else if (timer === undefined) refresh();
  };
  const leave = followChanges({ changed, behind: () => catchUp(queryClient) });
  return () => {
    leave();
    clearTimeout(timer);
  };
}

function isAway(): boolean {
  return pause.isPaused() || document.hidden;
}

function miss(all: readonly EventChanges[]): void {
  missed.set(all.reduce((total, { eventCount }) => total + eventCount, missed.get()));
}

/** Reads everything on the page again; if it is paused, as soon as it goes on. */
function catchUp(queryClient: QueryClient): void {
  if (pause.isPaused()) missed.set(missed.get() + 1);
  else void queryClient.invalidateQueries();
}

/** When a pause ends everything is read again: much of what is shown, such as renewals, has no event. */
function useRefreshAfterPause(queryClient: QueryClient): void {
  const holds = useSignal(pause.holds);
  const isByHand = useSignal(pause.isPausedByHand);
  const isBehind = useRef(false);
  useEffect(() => {
    const look = (): void => {
      if (pause.isPaused() || missed.get() > 0) isBehind.current = true;
      if (document.hidden || pause.isPaused() || !isBehind.current) return;
      isBehind.current = false;
      missed.set(0);
      catchUp(queryClient);
    };
    look();
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, [holds, isByHand, queryClient]);
}
