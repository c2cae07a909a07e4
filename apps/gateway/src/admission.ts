/**
 * Who is let in: finds the token of a request, and whether it is for the key that the request is for. And who is sent
 * to another address first: browsers keep the token in a cookie, and paths end with a slash.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isGatewayTokenFor } from '@leasehold/keys-core/gateway-tokens';
import { cookieFor, cookieValues } from './headers.ts';
import { Refusal } from './refusal.ts';
import { hostOf, rootOf, type Target } from './target.ts';
import type { Tokens, VerifiedToken } from './tokens.ts';

export type KeyTarget = Exclude<Target, { form: 'own' }>;

export interface Admitted {
  readonly token: VerifiedToken;
  /** Whether `Authorization` holds a token, this or another one, and not a credential of the program's. */
  readonly isBearer: boolean;
}

/** Of one name: a browser sends one for each path that it was set for. */
const COOKIES_MAX = 4;

export interface AdmissionDeps {
  readonly tokens: Tokens;
  /** Resolves when the controller has been asked once more. */
  readonly ask: () => Promise<void>;
}

/**
 * The token of a request, in force and for its key. In the path, then `Authorization`, then a cookie. At once where it
 * is known, as that of most requests is.
 * @throws {Refusal} with the first problem, if no token is good.
 */
export function admit(
  deps: AdmissionDeps,
  target: KeyTarget,
  { request, isSecure }: { readonly request: IncomingMessage; readonly isSecure: boolean },
): Admitted | Promise<Admitted> {
  const { authorization } = request.headers;
  const bearer = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
  if (target.form !== 'token') return admitByHeader(deps, { target, request, isSecure, bearer });
  const { keyId } = target;
  const admitted = (token: VerifiedToken): Admitted => {
    if (keyId !== undefined) assertHost(keyId, token);
    return { token, isBearer: isOwn(deps, bearer) };
  };
  const known = deps.tokens.known(target.token);
  return known === undefined ? verified(deps, target.token).then(admitted) : admitted(known);
}

const BEARER = /^Bearer +(\S+)$/iu;

async function admitByHeader(
  deps: AdmissionDeps,
  {
    target,
    request,
    isSecure,
    bearer,
  }: {
    readonly target: Exclude<KeyTarget, { form: 'token' }>;
    readonly request: IncomingMessage;
    readonly isSecure: boolean;
    readonly bearer: string | undefined;
  },
): Promise<Admitted> {
  const name = cookieFor({ isOwnHost: target.form === 'host', isSecure });
  const cookies = cookieValues(request.headers.cookie, name).slice(0, COOKIES_MAX);
  let problem: Refusal | undefined;
  for (const text of [...(bearer === undefined ? [] : [bearer]), ...cookies]) {
    try {
      const token = deps.tokens.known(text) ?? (await verified(deps, text));
      assertKey(target, token);
      if (text !== bearer) assertSameOrigin(request, isSecure);
      return { token, isBearer: isOwn(deps, bearer) };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      // A bearer token of the program's own says nothing about a cookie.
      if (text !== bearer || cookies.length === 0) problem ??= error;
    }
  }
  throw problem ?? new Refusal('gateway.token_required');
}

function isOwn({ tokens }: AdmissionDeps, bearer: string | undefined): boolean {
  return bearer !== undefined && tokens.isOfKnownKey(bearer);
}

/** A key that is not known may have been made a moment ago: the controller is asked once. */
async function verified({ tokens, ask }: AdmissionDeps, text: string): Promise<VerifiedToken> {
  if (!tokens.isReady || tokens.isOfUnknownKey(text)) await ask();
  if (!tokens.isReady) throw new Refusal('gateway.cut_off');
  return tokens.verify(text);
}

function assertKey(target: Exclude<KeyTarget, { form: 'token' }>, token: VerifiedToken): void {
  if (target.form === 'host') assertHost(target.keyId, token);
  else if (!isGatewayTokenFor(token.claims, target)) throw new Refusal('gateway.wrong_key');
}

function assertHost(keyId: string, token: VerifiedToken): void {
  if (token.hostLabel !== keyId) throw new Refusal('gateway.wrong_key');
}

const SAFE = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * A browser sends a cookie with whatever a page of another site makes it send. Its `Origin` names that site, and a
 * WebSocket has no other protection.
 */
function assertSameOrigin(request: IncomingMessage, isSecure: boolean): void {
  const { origin } = request.headers;
  const isChange = request.headers.upgrade !== undefined || !SAFE.has(request.method ?? '');
  if (origin === undefined || !isChange) return;
  // A page without referrers sends none that could be compared, but to a WebSocket. No page can set what the browser says.
  const isForm = request.headers.upgrade === undefined;
  if (origin === 'null' && isForm && request.headers['sec-fetch-site'] === 'same-origin') return;
  const isOwn = URL.canParse(origin) && new URL(origin).host === hostOf(request, isSecure);
  if (!isOwn) throw new Refusal('gateway.cross_origin');
}

// Where clients are sent on to, before anything is passed.

/** A longer cookie is not kept by browsers. */
const COOKIE_BYTES_MAX = 4_000;

interface Redirect {
  readonly status: 303 | 307 | 308;
  readonly location: string;
  readonly cookie?: string;
  /** Whether neither address has a token. */
  readonly isPlain?: boolean;
}

/** Answers with an address. What is left of a body is not read: the connection ends. */
export function redirect(
  { status, location, cookie, isPlain = false }: Redirect,
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
    'cache-control': 'no-store',
    'content-length': 0,
    location,
    'x-request-id': requestId,
    // A form that is sent on would lose its origin by it.
    ...(isPlain ? {} : { 'referrer-policy': 'no-referrer' }),
    ...(cookie === undefined ? {} : { 'set-cookie': cookie }),
    ...(request.complete ? {} : { connection: 'close' }),
  });
  response.end();
}

/** Where an address that has no slash after its key has it: relative addresses of a page need it. */
export function withSlash(request: IncomingMessage, { form, prefix }: KeyTarget): Redirect {
  return { status: 308, location: `${prefix}${rootOf(request)}`, isPlain: form !== 'token' };
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
