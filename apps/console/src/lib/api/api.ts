/**
 * How the console calls the controller. Calls go to the console's own origin, which passes them on;
 * the types are the router's, so that nothing is asked for that is not there.
 *
 * A query's key is `[group, procedure, input]`, and one default function carries every query out (see
 * `query-client.ts`): the server that prefetches a page and the browser that keeps it fresh use the
 * same {@link query}.
 */
import { queryOptions } from '@tanstack/react-query';
import {
  createTRPCUntypedClient,
  httpLink,
  httpSubscriptionLink,
  splitLink,
  TRPCClientError,
  type TRPCUntypedClient,
} from '@trpc/client';
import type { inferRouterInputs } from '@trpc/server';
import type { AppRouter } from '@leasehold/api';
import type { SessionView } from '@leasehold/api/contract';
import { createDeltaFetch } from './json-delta.ts';

export type Inputs = inferRouterInputs<AppRouter>;

type Router = AppRouter['_def']['record'];
/** As the procedures return them: all values are JSON-safe, so nothing changes on the way. */
export type Outputs = {
  [G in keyof Router]: {
    [P in keyof Router[G]]: Router[G][P] extends { _def: { $types: { output: infer Output } } }
      ? Output
      : never;
  };
};
export type Group = keyof Inputs;
export type Procedure<G extends Group> = keyof Inputs[G] & keyof Outputs[G] & string;

export type ApiClient = TRPCUntypedClient<AppRouter>;

/** The options of a query. `input` is the procedure's; leave it out where the procedure takes none. */
export function query<G extends Group, P extends Procedure<G>>(
  group: G,
  procedure: P,
  input: Inputs[G][P] | null = null,
) {
  return queryOptions<Outputs[G][P], ApiError>({ queryKey: [group, procedure, input] });
}

/** The CSRF token of the session's mutations; set once the session is known. */
let csrfToken: string | null = null;
export function setCsrfToken(token: string | null): void {
  csrfToken = token;
}

/** Whether mutations are sent with this token already. */
export function isCsrfToken(token: string): boolean {
  return token === csrfToken;
}

/** No call is waited for any longer, in milliseconds: the console's own server gives up before that. */
export const CALL_MS_MAX = 40_000;

const deltaFetch = createDeltaFetch((url, init) => fetch(url, init));

/** The browser's client. */
export const api: ApiClient = createTRPCUntypedClient<AppRouter>({
  links: [
    splitLink({
      condition: (operation) => operation.type === 'subscription',
      true: httpSubscriptionLink({ url: '/trpc' }),
      false: httpLink({
        url: '/trpc',
        fetch: (url, init) => deltaFetch(url as string, init as RequestInit),
        headers: () => (csrfToken === null ? {} : { 'x-leasehold-csrf': csrfToken }),
      }),
    }),
  ],
});

/** What a refused or failed call says, in the contract's words. */
export class ApiError extends Error {
  /** `group.reason`; `network` when no answer came. */
  readonly code: string;
  readonly isRetryable: boolean;
  /** What an operator looks for in the controller's log; null for a plain refusal. */
  readonly incidentId: string | null;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    message: string,
    fields: {
      code: string;
      isRetryable: boolean;
      incidentId: string | null;
      details?: Readonly<Record<string, unknown>>;
      cause?: unknown;
    },
  ) {
    super(message, { cause: fields.cause });
    this.name = 'ApiError';
    this.code = fields.code;
    this.isRetryable = fields.isRetryable;
    this.incidentId = fields.incidentId;
    this.details = fields.details ?? {};
  }
}

interface ErrorData {
  readonly leaseholdCode?: unknown;
  readonly retryable?: unknown;
  readonly incidentId?: unknown;
  readonly details?: unknown;
}

/** Any failure as an {@link ApiError}. An aborted call stays what it is. */
export function toApiError(error: unknown): unknown {
  if (error instanceof ApiError || !(error instanceof TRPCClientError)) return error;
  if (error.cause?.name === 'AbortError') return error.cause;
  const data = (error.data ?? {}) as ErrorData;
  if (typeof data.leaseholdCode !== 'string') {
    return new ApiError('The controller could not be reached.', {
      code: 'network',
      isRetryable: true,
      incidentId: null,
      cause: error,
    });
  }
  return new ApiError(error.message, {
    code: data.leaseholdCode,
    isRetryable: data.retryable === true,
    incidentId: typeof data.incidentId === 'string' ? data.incidentId : null,
    details: (data.details ?? {}) as Readonly<Record<string, unknown>>,
    cause: error,
  });
}

/** The failure of an act: where no answer came, nothing here tells whether it was carried out. */
export function actFailure(error: unknown): unknown {
  const failure = toApiError(error);
  if (!(failure instanceof ApiError) || failure.code !== 'network') return failure;
  return new ApiError('No answer came: what it did is unknown. Look before you try again.', {
    code: 'request.outcome_unknown',
    isRetryable: false,
    incidentId: null,
    details: { by: 'console' },
    cause: failure,
  });
}

/** The codes of a missing answer, as this page or the console's own server noticed it. */
const NO_ANSWER: ReadonlySet<string> = new Set(['network', 'request.unreachable']);

/**
 * Whether no controller answered; otherwise one has said why it did not do what was asked. A controller that lost its
 * database says `request.outcome_unknown` too: only the console notes in the details that it is its own.
 */
export function isUnanswered({ code, details }: Pick<ApiError, 'code' | 'details'>): boolean {
  const isOfConsole = details['by'] === 'console';
  return NO_ANSWER.has(code) || (code === 'request.outcome_unknown' && isOfConsole);
}

/** Whether the failure means that nobody is signed in any more. */
export function isSignedOut(error: unknown): boolean {
  return error instanceof ApiError && error.code === 'auth.required';
}

/** The session of this browser, as a page knows it and may ask for it. */
interface OwnSession {
  /** Whom the page shows; undefined for nobody. */
  readonly personId: string | undefined;
  readonly read: () => Promise<Pick<SessionView, 'person' | 'csrfToken'>>;
  readonly setCsrfToken: (token: string | null) => void;
  readonly reload: () => void;
}

/**
 * Sends an act. One that is refused for its CSRF token is sent once more, with that of the present session: after a
 * sign-in in another tab, this one may still have the token of the session before. @throws what failed, as it came.
 */
export async function sendAgain<Answer>(
  send: () => Promise<Answer>,
  session: OwnSession,
): Promise<Answer> {
  try {
    return await send();
  } catch (error) {
    if (!isStale(toApiError(error))) throw error;
    const { person, csrfToken } = await session.read().catch((failure: unknown) => {
      throw isSignedOut(toApiError(failure)) ? failure : error;
    });
    if (person?.personId !== session.personId) {
      // Another person must not finish what was begun here.
      session.reload();
      throw error;
    }
    session.setCsrfToken(csrfToken);
    return await send();
  }
}

function isStale(failure: unknown): boolean {
  return failure instanceof ApiError && failure.code === 'auth.csrf';
}
