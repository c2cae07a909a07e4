/** Who is let in: finds the token of a request, and whether it is for the key that the request is for. */
import type { IncomingMessage } from 'node:http';
import { isGatewayTokenFor } from '@leasehold/keys-core/gateway-tokens';
import { cookieFor, cookieValues } from './headers.ts';
import { Refusal } from './refusal.ts';
import type { Target } from './target.ts';
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
      if (text !== bearer) assertSameOrigin(request);
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
function assertSameOrigin(request: IncomingMessage): void {
  const { origin, host } = request.headers;
  const isChange = request.headers.upgrade !== undefined || !SAFE.has(request.method ?? '');
  if (origin === undefined || !isChange) return;
  const isOwn = URL.canParse(origin) && new URL(origin).host === host?.toLowerCase();
  if (!isOwn) throw new Refusal('gateway.cross_origin');
}
