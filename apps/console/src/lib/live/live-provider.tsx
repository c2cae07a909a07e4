import { type QueryClient, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useRef } from 'react';
import type { EventChanges } from '@leasehold/keys-core';
import { api, isSignedOut, toApiError } from '~/lib/api/api.ts';
import { at } from '~/lib/routes.ts';
import { signedOut } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { missed, pause, stream } from './live-state.ts';

// Which answers may have changed, given what events happened to: only those are read again.

/** A query: its key is `[group, procedure, input]`. */
interface Asked {
  readonly queryKey: readonly unknown[];
  /** Its last answer. */
  readonly data?: unknown;
}

/** The groups of procedures whose answers an event of a face may change. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  key: ['keys', 'backends', 'drones', 'stats', 'events'],
  lease: ['leases', 'stats', 'events'],
  environment: ['environments', 'stats', 'events'],
};

/** What an answer is about: each part that is not undefined narrows it down. */
interface Subject {
  readonly face?: unknown;
  readonly namespace?: unknown;
  readonly name?: unknown;
}

/** Whether an answer may be another one after these changes, which are all of this datacenter. */
export function isConcerned(asked: Asked, { resources, manyOf }: EventChanges): boolean {
  const [group, procedure, input] = asked.queryKey;
  const given = recordOf(input);
  if (isElsewhere(given['datacenter'])) return false;
  const isOfGroup = (face: string): boolean => GROUPS[face]?.includes(String(group)) === true;
  const subject: Subject = { ...given, ...keyOfBackend(group, procedure, asked.data) };
  const isExact = typeof subject.name === 'string';
  return (
    manyOf.some((face) => isOfGroup(face) && isFace(subject, face)) ||
    resources.some(
      ({ face, namespace, name }) =>
        isOfGroup(face) &&
        isFace(subject, face) &&
        (!isExact || subject.name === name) &&
        isWithin(namespace, subject.namespace, isExact && procedure !== 'list'),
    )
  );
}

function isFace({ face }: Subject, changed: string): boolean {
  return face === undefined || face === changed;
}

/** Events of other datacenters do not arrive here: their answers are read on a timer. */
function isElsewhere(datacenter: unknown): boolean {
  if (typeof datacenter !== 'string' || datacenter === 'all') return false;
  return at(datacenter).datacenter !== undefined;
}

function isWithin(namespace: string, wanted: unknown, isAlone: boolean): boolean {
  if (typeof wanted !== 'string' || namespace === wanted) return true;
  return !isAlone && (wanted === '' || namespace.startsWith(`${wanted}.`));
}

/** A backend is asked for by its id; its answer says which key it belongs to. */
function keyOfBackend(group: unknown, procedure: unknown, data: unknown): Subject {
  if (group !== 'backends' || procedure !== 'get') return {};
  const { namespace, name } = recordOf(recordOf(data)['key']);
  return { namespace, name };
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

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

/** After a failure that tRPC does not repair by itself the stream is opened again. */
const REOPEN_MS = 2_000;

interface ChangesListener {
  readonly changed: (changes: EventChanges) => void;
  /** Called when the stream is open again after nothing was received for a while. */
  readonly behind: () => void;
}

/**
 * Follows what changes while the tab is visible: a browser has six connections to one origin, and
 * hidden tabs must not take them from the visible one. @returns what ends it.
 */
function followChanges({ changed, behind }: ChangesListener): () => void {
  let reopen: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;
  /** Something may have happened while nothing was received. */
  let isBehind = false;
  let subscription: { unsubscribe(): void } | undefined;

  const lost = (): void => {
    isBehind = true;
    stream.set('lost');
  };
  const open = (): void => {
    clearTimeout(reopen);
    if (isOver || document.hidden || subscription !== undefined) return;
    subscription = api.subscription('events.changes', undefined, {
      onConnectionStateChange(state) {
        if (state.state === 'pending') {
          if (isBehind) behind();
          isBehind = false;
          stream.set('open');
        } else if (state.error !== null) lost();
      },
      onData(data) {
        changed(data as EventChanges);
      },
      onError(error) {
        lost();
        if (isSignedOut(toApiError(error))) signedOut.raise();
        close();
        if (!isOver) reopen = setTimeout(open, REOPEN_MS);
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
    clearTimeout(reopen);
    close();
  };
}
