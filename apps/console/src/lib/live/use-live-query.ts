'use client';

import { hashKey, keepPreviousData, useQuery, type UseQueryResult } from '@tanstack/react-query';
import { query, type Group, type Inputs, type Outputs, type Procedure } from '../api/api.ts';
import type { ApiError } from '../api/api-error.ts';
import { useSignal } from '../use-signal.ts';
import { pause, stream } from './live-state.ts';
import { useLastFailure } from './use-last-failure.ts';

const LISTS: ReadonlySet<string> = new Set(['list', 'contention', 'declared']);

/** Without the stream lists are read this often at least. */
const POLL_MS = 2_000;

/**
 * A query that stays fresh: it is read again after events (see `live-provider.tsx`), and every
 * `everyMs` for what has no event; not while updates are paused or the tab is hidden.
 */
export function useLiveQuery<G extends Group, P extends Procedure<G>>(
  group: G,
  procedure: P,
  input?: Inputs[G][P],
  options: { readonly everyMs?: number; readonly enabled?: boolean } = {},
): UseQueryResult<Outputs[G][P], ApiError> {
  const { everyMs = 5_000, enabled = true } = options;
  const holds = useSignal(pause.holds);
  const isByHand = useSignal(pause.isPausedByHand);
  const streamState = useSignal(stream);
  const isPaused = holds > 0 || isByHand;
  const intervalMs = streamState === 'open' ? everyMs : Math.min(everyMs, POLL_MS);
  const asked = query(group, procedure, input);
  const read = useQuery({
    ...asked,
    enabled,
    refetchInterval: isPaused ? false : intervalMs,
    // The rows of a list stay visible, pale, until those of the next page arrive. Any other answer is
    // about one thing, and must never be shown for another.
    ...(LISTS.has(procedure) ? { placeholderData: keepPreviousData } : {}),
  });
  return useLastFailure(read, hashKey(asked.queryKey));
}
