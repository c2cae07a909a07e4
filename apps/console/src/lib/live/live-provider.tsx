import type { EventView } from '@leasehold/keys-core';
import { useQueryClient, type QueryClient } from '@tanstack/react-query';
import { useEffect, useRef, type ReactNode } from 'react';
import { api } from '../api/api.ts';
import { isSignedOut, toApiError } from '../api/api-error.ts';
import { signedOut } from '../session/signed-out.ts';
import { useSignal } from '../signal.ts';
import { missed, pause, stream } from './live-state.ts';

/** However many events come, lists are read again no more often than this. */
const REFRESH_EVERY_MS = 400;
/** What happens together, such as a grant and its backend, is read together. */
const GATHER_MS = 50;
/** After a failure that tRPC does not repair by itself the stream is opened again. */
const REOPEN_MS = 2_000;

/** The groups of procedures whose answers an event of a face may change. */
const GROUPS: Record<string, readonly string[]> = {
  key: ['keys', 'backends', 'drones', 'stats', 'events'],
  lease: ['leases', 'stats', 'events'],
  environment: ['environments', 'stats', 'events'],
};

/** Keeps every query below fresh while the page is visible. */
export function LiveProvider({ children }: { readonly children: ReactNode }) {
  const queryClient = useQueryClient();
  useEffect(() => followEvents(queryClient), [queryClient]);
  useRefreshAfterPause(queryClient);
  return children;
}

/**
 * Follows the stream while the tab is visible: a browser has six connections to one origin, and
 * hidden tabs must not take them from the visible one.
 */
function followEvents(queryClient: QueryClient): () => void {
  const changed = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let refreshedAtMs = -REFRESH_EVERY_MS;
  let reopen: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;
  /** Something may have happened while nothing was received. */
  let isBehind = false;
  let subscription: { unsubscribe(): void } | undefined;

  const refresh = (): void => {
    timer = undefined;
    refreshedAtMs = performance.now();
    const groups = [...changed];
    changed.clear();
    for (const group of groups) void queryClient.invalidateQueries({ queryKey: [group] });
  };
  const heard = (face: string): void => {
    if (pause.isPaused() || document.hidden) {
      missed.set(missed.get() + 1);
      return;
    }
    for (const group of GROUPS[face] ?? []) changed.add(group);
    const waitMs = refreshedAtMs + REFRESH_EVERY_MS - performance.now();
    timer ??= setTimeout(refresh, Math.max(GATHER_MS, waitMs));
  };
  const open = (): void => {
    clearTimeout(reopen);
    if (isOver || document.hidden || subscription !== undefined) return;
    subscription = api.subscription('events.watch', undefined, {
      onConnectionStateChange(state) {
        if (state.state === 'pending') {
          if (isBehind) catchUp(queryClient);
          isBehind = false;
          stream.set('open');
        } else if (state.error !== null) {
          isBehind = true;
          stream.set('lost');
        }
      },
      onData(data) {
        const event = (data as { data?: EventView }).data ?? (data as EventView);
        heard(event.face);
      },
      onError(error) {
        isBehind = true;
        stream.set('lost');
        if (isSignedOut(toApiError(error))) signedOut.raise();
        close();
        reopen = setTimeout(open, REOPEN_MS);
      },
    });
  };
  const close = (): void => {
    subscription?.unsubscribe();
    subscription = undefined;
  };
  const look = (): void => {
    if (document.hidden) {
      close();
      isBehind = true;
      stream.set('connecting');
    } else open();
  };
  open();
  document.addEventListener('visibilitychange', look);
  return () => {
    isOver = true;
    document.removeEventListener('visibilitychange', look);
    clearTimeout(timer);
    clearTimeout(reopen);
    close();
  };
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
