/** Where the gateway sends clients on to, before anything is passed. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { KeyTarget } from './admission.ts';
import { cookieFor } from './headers.ts';
import { rootOf } from './target.ts';
import type { VerifiedToken } from './tokens.ts';

/** A longer cookie is not kept by browsers. */
const COOKIE_BYTES_MAX = 4_000;

interface Redirect {
  readonly status: 303 | 307 | 308;
  readonly location: string;
  readonly cookie?: string;
}

/** Of answers whose address or cookie has a token. */
const PRIVATE = {
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  'content-length': 0,
};

/** Answers with an address. What is left of a body is not read: the connection ends. */
export function redirect(
  { status, location, cookie }: Redirect,
  {
    request,
    response,
    requestId,
  }: {
    readonly request: IncomingMessage;
    readonly response: ServerResponse;
    readonly requestId: string;
  },
): void {
  response.writeHead(status, {
    ...PRIVATE,
    location,
    'x-request-id': requestId,
    ...(cookie === undefined ? {} : { 'set-cookie': cookie }),
    ...(request.complete ? {} : { connection: 'close' }),
  });
  response.end();
}

/** Where an address that has no slash after its key has it: relative addresses of a page need it. */
export function withSlash(request: IncomingMessage, { prefix }: KeyTarget): Redirect {
  return { status: 308, location: `${prefix}${rootOf(request)}` };
}

/** Whether {@link redirectFor} may find a place. */
export function mayRedirect(request: IncomingMessage, { form }: KeyTarget): boolean {
  return form === 'token' && isNavigation(request);
}

/** Where an address has no token; undefined for what is passed as it is. */
export function redirectFor(
  request: IncomingMessage,
  target: KeyTarget,
  {
    token: { keyPrefix, text },
    secondsLeft,
    isSecure,
  }: {
    readonly token: VerifiedToken;
    readonly secondsLeft: number;
    readonly isSecure: boolean;
  },
): Redirect | undefined {
  const isLong = text.length > COOKIE_BYTES_MAX;
  if (target.form !== 'token' || isLong || !isNavigation(request)) return undefined;
  const prefix = target.keyId === undefined ? keyPrefix : '';
  const cookie = [
    `${cookieFor({ isOwnHost: target.keyId !== undefined, isSecure })}=${text}`,
    `Path=${prefix}/`,
    `Max-Age=${String(secondsLeft)}`,
    'HttpOnly',
    'SameSite=Lax',
    ...(isSecure ? ['Secure'] : []),
  ].join('; ');
  return { status: 303, location: `${prefix}${target.rest}`, cookie };
}

/** Whether a browser opens a page of its own: it is sent on, and keeps a cookie. */
function isNavigation({ method = '', headers }: IncomingMessage): boolean {
  if (!['GET', 'HEAD'].includes(method)) return false;
  const mode = headers['sec-fetch-mode'];
  if (mode === undefined) return headers.accept?.includes('text/html') ?? false;
  // Within a page of another site, browsers keep no cookie.
  const isOwnPage =
    headers['sec-fetch-dest'] === 'document' || headers['sec-fetch-site'] !== 'cross-site';
  return mode === 'navigate' && isOwnPage;
}
