import type { EventChanges, EventView, Face } from '@leasehold/keys-core';
import { api, isProcedureMissing } from '../api/api.ts';
import { isSignedOut, toApiError } from '../api/api-error.ts';
import { signedOut } from '../session/signed-out.ts';
import { stream } from './live-state.ts';

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
export function followChanges({ changed, behind }: ChangesListener): () => void {
  let reopen: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;
  /** Something may have happened while nothing was received. */
  let isBehind = false;
  /** A controller of the version before has only the stream of every event. */
  let isOld = false;
  let subscription: { unsubscribe(): void } | undefined;

  const lost = (): void => {
    isBehind = true;
    stream.set('lost');
  };
  const open = (): void => {
    clearTimeout(reopen);
    if (isOver || document.hidden || subscription !== undefined) return;
    subscription = api.subscription(isOld ? 'events.watch' : 'events.changes', undefined, {
      onConnectionStateChange(state) {
        if (state.state === 'pending') {
          if (isBehind) behind();
          isBehind = false;
          stream.set('open');
        } else if (state.error !== null) lost();
      },
      onData(data) {
        changed(isOld ? changesOfEvent(data) : (data as EventChanges));
      },
      onError(error) {
        lost();
        if (isSignedOut(toApiError(error))) signedOut.raise();
        close();
        // A browser does not tell why it could not open a stream.
        void isProcedureMissing('events.changes').then((isMissing) => {
          isOld = isMissing;
          if (!isOver) reopen = setTimeout(open, REOPEN_MS);
        });
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

/** One event, as a message of the other stream. */
function changesOfEvent(data: unknown): EventChanges {
  const event = (data as { data?: EventView }).data ?? (data as EventView);
  const { namespace, name } = event;
  const face = event.face as Face;
  return { eventCount: 1, resources: [{ face, namespace, name }], manyOf: [] };
}
