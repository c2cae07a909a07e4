import { getBackend, readBackendStates, type NamespaceLimits } from './sql/backends.ts';
import type { BackendStateView } from './fleet-views.ts';
import type { Store } from '../postgres/open-store.ts';

/** How long a state goes unnoticed when its hint is lost. */
const POLL_MS = 1_000;

/**
 * Yields every state that a backend was in, then those that follow; ends after `terminated`, or
 * when the signal aborts. @throws {LeaseError} `backend.not_found`.
 */
export async function* watchBackend(
  store: Pick<Store, 'reads' | 'hints' | 'clock'>,
  backendId: string,
  reader: { readonly limits: NamespaceLimits; readonly signal: AbortSignal },
): AsyncGenerator<BackendStateView> {
  await getBackend(store.reads, backendId, reader.limits);
  let afterId = '0';
  while (!reader.signal.aborted) {
    // Waiting begins before the look, so that no hint in between is missed.
    const changed = store.hints.next(
      `backend:${backendId}`,
      store.clock.nowMs() + POLL_MS,
      reader.signal,
    );
    for (const state of await readBackendStates(store.reads, backendId, afterId)) {
      yield state;
      afterId = state.id;
      if (state.status === 'terminated') return;
    }
    await changed;
  }
}
