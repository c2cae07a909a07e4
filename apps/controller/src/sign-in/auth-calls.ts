import { jsonOf } from '@leasehold/service-kit';
import { AUTH_PATH, EPOCH_HEADER, SOURCE_HEADER, type Auth } from './auth.ts';
import { callOfAuth, type CallState } from './call-state.ts';

/** A call of better-auth, rebuilt from checked values: nothing of a caller reaches it unchecked. */
export interface AuthCall {
  readonly path: string;
  readonly origin: string;
  readonly source: string | null;
  readonly requestId: string;
  /** Posted as JSON; without it, a GET. */
  readonly body?: Readonly<Record<string, unknown>> | undefined;
  readonly query?: string | undefined;
  readonly cookie?: string | undefined;
  readonly userAgent?: string | undefined;
  /** The epoch of the person's sessions, as it was before the password is checked. */
  readonly epoch?: number | undefined;
}

const USER_AGENT_LENGTH_MAX = 255;

/** What better-auth answered, as far as it is passed on. */
export interface AuthAnswer {
  readonly status: number;
  readonly cookies: readonly string[];
  readonly location: string | null;
  readonly body: Readonly<Record<string, unknown>>;
  /** Whether the groups of the person, at the identity provider, allow nothing here. */
  readonly isWithoutRole: boolean;
}

/** Calls better-auth. */
export async function callAuth(auth: Auth, call: AuthCall): Promise<AuthAnswer> {
  const headers = new Headers({ origin: call.origin });
  if (call.source !== null) headers.set(SOURCE_HEADER, call.source);
  if (call.epoch !== undefined) headers.set(EPOCH_HEADER, String(call.epoch));
  if (call.cookie !== undefined) headers.set('cookie', call.cookie);
  if (call.userAgent !== undefined) {
    headers.set('user-agent', call.userAgent.slice(0, USER_AGENT_LENGTH_MAX));
  }
  if (call.body !== undefined) headers.set('content-type', 'application/json');
  const request = new Request(`${call.origin}${AUTH_PATH}${call.path}${call.query ?? ''}`, {
    method: call.body === undefined ? 'GET' : 'POST',
    headers,
    ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
  });
  const state: CallState = { requestId: call.requestId, source: call.source };
  const response = await callOfAuth.run(state, () => auth.handler(request));
  // Redirections have no body.
  const body = jsonOf(await response.text());
  return {
    status: response.status,
    cookies: response.headers.getSetCookie(),
    location: response.headers.get('location'),
    body: typeof body === 'object' && body !== null ? { ...body } : {},
    isWithoutRole: state.grant === null,
  };
}
