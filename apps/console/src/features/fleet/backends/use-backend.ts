import { useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { useEffect } from 'react';
import { api, query } from '~/lib/api/api.ts';
import type { ApiError } from '~/lib/api/api-error.ts';
import { at } from '~/lib/datacenters/here.ts';
import { pause } from '~/lib/live/live-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import type { BackendState, BackendWithStates } from './backend-texts.ts';

/**
 * A backend and its states. Each state appears when it is reported, and everything is also read again
 * regularly, so that a lost stream delays states by seconds and loses none.
 */
export function useBackend(
  backendId: string,
  datacenter: string,
): UseQueryResult<BackendWithStates, ApiError> {
  const where = at(datacenter);
  const isHere = where.datacenter === undefined;
  const read = useLiveQuery('backends', 'get', { backendId, ...where });
  const queryClient = useQueryClient();
  // No stream after the last state, because a browser has few connections to spare. Streams of other
  // datacenters do not reach this controller.
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
        // Then only the timer reads again.
        onError: () => undefined,
      },
    );
    return () => subscription.unsubscribe();
  }, [backendId, isWatched, queryClient]);
  return read;
}
