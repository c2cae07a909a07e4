'use client';

import { useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { useEffect } from 'react';
import { api, query } from '~/lib/api/api.ts';
import type { ApiError } from '~/lib/api/api-error.ts';
import { at } from '~/lib/datacenters/here.ts';
import { pause } from '~/lib/live/live-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import type { BackendState, BackendWithStates } from './backend-texts.ts';

/**
 * A backend and its states: each state as it is reported, and everything read again now and then, so
 * that a stream that is lost costs seconds and no state.
 */
export function useBackend(
  backendId: string,
  datacenter: string,
): UseQueryResult<BackendWithStates, ApiError> {
  const where = at(datacenter);
  const isHere = where.datacenter === undefined;
  const read = useLiveQuery('backends', 'get', { backendId, ...where });
  const queryClient = useQueryClient();
  // Nothing follows the last state, a browser has few connections to spare for streams, and those of
  // other datacenters do not reach here.
  const isWatched = isHere && read.data !== undefined && read.data.status !== 'terminated';
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
