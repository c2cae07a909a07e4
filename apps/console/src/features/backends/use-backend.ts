'use client';

import { useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { useEffect } from 'react';
import { api, query } from '~/lib/api.ts';
import type { ApiError } from '~/lib/api-error.ts';
import { pause } from '~/lib/live/live-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import type { BackendState, BackendWithStates } from './backend-texts.ts';

/**
 * A backend and its states: each state as it is reported, and everything read anew now and then, so
 * that a stream that is lost costs seconds and no state.
 */
export function useBackend(backendId: string): UseQueryResult<BackendWithStates, ApiError> {
  const read = useLiveQuery('backends', 'get', { backendId });
  const queryClient = useQueryClient();
  // Nothing follows the last state, and a browser has few connections to spare for streams.
  const isWatched = read.data !== undefined && read.data.status !== 'terminated';
  useEffect(() => {
    if (!isWatched) return undefined;
    const { queryKey } = query('backends', 'get', { backendId });
    const subscription = api.subscription(
      'backends.watch',
      { backendId },
      {
        onData(data) {
          const { id } = data as BackendState;
          const known = queryClient.getQueryData<BackendWithStates>(queryKey);
          // The stream begins with every state from the first on.
          if (pause.isPaused() || known?.states.some((state) => state.id === id) === true) return;
          void queryClient.invalidateQueries({ queryKey });
        },
        // The timer goes on alone.
        onError: () => undefined,
      },
    );
    return () => {
      subscription.unsubscribe();
    };
  }, [backendId, isWatched, queryClient]);
  return read;
}
