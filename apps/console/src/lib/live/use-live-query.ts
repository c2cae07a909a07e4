import {
  hashKey,
  keepPreviousData,
  type QueryClient,
  useMutation,
  type UseMutationResult,
  useQuery,
  useQueryClient,
  type UseQueryResult,
} from '@tanstack/react-query';
import type { SessionView } from '@leasehold/api/contract';
import { useEffect, useState } from 'react';
import {
  actFailure,
  api,
  CALL_MS_MAX,
  type ApiError,
  type Group,
  type Inputs,
  isSignedOut,
  type Outputs,
  type Procedure,
  query,
  sendAgain,
  setCsrfToken,
} from '~/lib/api/api.ts';
import { signedOut, useSession } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { pause, stream } from './live-state.ts';

const LISTS: ReadonlySet<string> = new Set(['list', 'contention', 'declared', 'failingCallbacks']);

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
  options: {
    readonly everyMs?: number;
    readonly enabled?: boolean;
    /** Not after events: for choices, which need not be of this second. */
    readonly isOnTimer?: boolean;
  } = {},
): UseQueryResult<Outputs[G][P], ApiError> {
  const { everyMs = 5_000, enabled = true, isOnTimer = false } = options;
  const holds = useSignal(pause.holds);
  const isByHand = useSignal(pause.isPausedByHand);
  const streamState = useSignal(stream);
  const isPaused = holds > 0 || isByHand;
  const intervalMs = streamState === 'open' ? everyMs : Math.min(everyMs, POLL_MS);
  const asked = query(group, procedure, input);
  const read = useQuery({
    ...asked,
    enabled,
    meta: { isOnTimer },
    refetchInterval: isPaused ? false : intervalMs,
    // The rows of a list stay visible, pale, until those of the next page arrive. Any other answer is
    // about one thing, and must never be shown for another.
    ...(LISTS.has(procedure) ? { placeholderData: keepPreviousData } : {}),
  });
  const shown = useLastFailure(read, hashKey(asked.queryKey));
  return enabled || !LISTS.has(procedure) ? shown : notAsked(shown);
}

/** A list that is not asked for has no rows: those that are known are of another search. */
function notAsked<Data>(read: UseQueryResult<Data, ApiError>): UseQueryResult<Data, ApiError> {
  return { ...read, data: undefined, isPlaceholderData: false } as UseQueryResult<Data, ApiError>;
}

/**
 * A first read that failed stays a failure while it is retried: a page that alternated between the
 * error and a skeleton could neither be read nor clicked.
 */
function useLastFailure<Data>(
  read: UseQueryResult<Data, ApiError>,
  key: string,
): UseQueryResult<Data, ApiError> {
  const [failed, setFailed] = useState<Failed | null>(null);
  const isFirst = read.data === undefined || read.isPlaceholderData;
  const next = nextOf(failed, isFirst, read.error, key);
  if (next !== failed) setFailed(next);
  return next === null || read.isError ? read : asFailed(read, next.error);
}

interface Failed {
  readonly key: string;
  readonly error: ApiError;
}

/** The last failure of the first read of this key; null if it has not failed, or was answered since. */
function nextOf(
  failed: Failed | null,
  isFirst: boolean,
  error: ApiError | null,
  key: string,
): Failed | null {
  if (!isFirst) return null;
  const known = failed?.key === key ? failed : null;
  return error === null || error === known?.error ? known : { key, error };
}

function asFailed<Data>(
  read: UseQueryResult<Data, ApiError>,
  error: ApiError,
): UseQueryResult<Data, ApiError> {
  return {
    ...read,
    status: 'error',
    data: undefined,
    error,
    isError: true,
    isLoadingError: true,
    isRefetchError: false,
    isPending: false,
    isLoading: false,
    isSuccess: false,
    isPlaceholderData: false,
  };
}

/**
 * After a mutation everything on the page is read again. A success waits for that, so that the page shows it when its
 * dialog closes. A failure does not: it is told at once, and reads that fail too are retried for long.
 */
export function readingAgain(queryClient: Pick<QueryClient, 'invalidateQueries'>) {
  const onSuccess = (): Promise<void> => queryClient.invalidateQueries();
  return { onSuccess, onError: (): void => void onSuccess() };
}

/** A mutation. After it everything on the page is read again. */
export function useApiMutation<G extends Group, P extends Procedure<G>>(
  group: G,
  procedure: P,
): UseMutationResult<Outputs[G][P], ApiError, Inputs[G][P]> {
  const queryClient = useQueryClient();
  const { person } = useSession();
  const mutation = useMutation<Outputs[G][P], ApiError, Inputs[G][P]>({
    mutationFn: async (input) => {
      try {
        return await sendAgain(
          async () => {
            const signal = AbortSignal.timeout(CALL_MS_MAX);
            return (await api.mutation(`${group}.${procedure}`, input, {
              signal,
            })) as Outputs[G][P];
          },
          {
            personId: person?.personId,
            read: async () => (await api.query('session.get')) as SessionView,
            setCsrfToken,
            reload: () => window.location.reload(),
          },
        );
      } catch (error) {
        const failure = actFailure(error);
        if (isSignedOut(failure)) signedOut.raise();
        throw failure;
      }
    },
    ...readingAgain(queryClient),
  });
  // Somebody has signed in again: what was refused before that can be tried again.
  const isOver = !useSignal(signedOut) && isSignedOut(mutation.error);
  const { reset } = mutation;
  useEffect(() => {
    if (isOver) reset();
  }, [isOver, reset]);
  return mutation;
}
