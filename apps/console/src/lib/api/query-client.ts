import { QueryClient, type QueryFunctionContext } from '@tanstack/react-query';
import { databaseClock } from '~/lib/live/database-clock.ts';
import { at } from '~/lib/routes.ts';
import { type ApiClient, ApiError, isSignedOut, toApiError } from './api.ts';

const RETRIES_MAX = 2;

/** Whether the answer may come from another datacenter alone. */
function isOfAnother(input: unknown): boolean {
  if (typeof input !== 'object' || input === null || !('datacenter' in input)) return false;
  return input.datacenter !== undefined && input.datacenter !== 'all';
}

/** Whether the answer says that it is another datacenter's: a key is read where its home is. */
function isFromAnother(answer: unknown): boolean {
  if (typeof answer !== 'object' || answer === null || !('datacenter' in answer)) return false;
  return typeof answer.datacenter === 'string' && at(answer.datacenter).datacenter !== undefined;
}

interface OfPage {
  /** Called when an answer says that nobody is signed in any more. */
  readonly onSignedOut?: () => void;
  /** Whether what is shown must stay as it is. */
  readonly isPaused?: () => boolean;
}

/** A client whose queries are procedures: `['keys', 'list', input]`. */
export function createQueryClient(
  api: ApiClient,
  { onSignedOut, isPaused = () => false }: OfPage = {},
): QueryClient {
  const queryFn = async ({ queryKey, signal }: QueryFunctionContext): Promise<unknown> => {
    const [group, procedure, input] = queryKey as [string, string, unknown];
    try {
      const answer = await api.query(`${group}.${procedure}`, input ?? undefined, { signal });
      // Another datacenter's database has its own clock.
      if (!isOfAnother(input) && !isFromAnother(answer)) databaseClock.observe(answer);
      return answer ?? null;
    } catch (error) {
      const failure = toApiError(error);
      if (isSignedOut(failure)) onSignedOut?.();
      throw failure;
    }
  };
  return new QueryClient({
    defaultOptions: {
      queries: {
        queryFn,
        staleTime: 1_000,
        retry: (count, error) =>
          count < RETRIES_MAX && error instanceof ApiError && error.isRetryable,
        // What is paused stays as it is. When the pause ends, everything is read again.
        refetchOnWindowFocus: () => !isPaused(),
        refetchOnReconnect: () => !isPaused(),
      },
      // Not put off until the network is back: nobody expects it then any more.
      mutations: { retry: false, networkMode: 'always' },
    },
  });
}
