/**
 * Finds out who sends a request before any of it is parsed, and counts the request before any of it is
 * carried out.
 */
import type { Access, ApiContext, ApiServices, CallerConnection, CallerUse } from '@leasehold/api';
import { LeaseError, actorOfToken } from '@leasehold/keys-core';
import type { TokenAuthority } from '@leasehold/keys-core/access';
import type { Sources } from '@leasehold/service-kit/source-address';
import { activeTracer, carrierIn, type TraceCarrier } from '@leasehold/service-kit/tracing';
import { setMaxListeners } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import type { FairUse, PrincipalUse } from '../fair-use/fair-use.ts';
import type { Rates } from '../fair-use/rates.ts';
import type { PeerAccess } from '../peers/peer-access.ts';
import type { PersonAccess } from '../sign-in/person-access.ts';

/**
 * How long a caller without a good token waits for its refusal once it has sent too many. This
 * slows down a caller that goes on at once, but not one that slows down by itself.
 */
const REFUSAL_DELAY_MS = 250;

export interface ContextDeps {
  readonly services: ApiServices;
  readonly tokens: TokenAuthority;
  readonly people: PersonAccess;
  readonly peers: PeerAccess;
  readonly rates: Rates;
  readonly fairUse: FairUse;
  readonly sources: Sources;
}

/** Somebody who may call, and what they may use. */
export interface Caller {
  readonly access: Access;
  readonly use: PrincipalUse;
}

/**
 * Finds out who sends this request. A token takes precedence over a cookie.
 * @throws {LeaseError} `auth.required`, also for a token that is not in force; `auth.csrf` when a
 * cookie came from another site than the console; `request.rate_limited` for an address that sends too
 * many requests without a good token; `peer.refused`.
 */
export async function callerOfRequest(
  deps: ContextDeps,
  request: IncomingMessage,
): Promise<Caller> {
  const bearer = bearerOf(request);
  // A peer calls over HTTP, and sends its secret with the request.
  const peer = bearer === undefined ? undefined : deps.peers.of(request, bearer);
  if (peer !== undefined) return callerWith(deps, peer);
  if (bearer !== undefined) {
    if (deps.tokens.statusOf(bearer) === 'new') await countByAddress(deps, request, 'newSecret');
    return callerOfToken(deps, request, bearer);
  }
  const person = await deps.people.accessOf(request);
  if (person !== undefined) return callerWith(deps, person);
  await countAnonymous(deps, request);
  throw new LeaseError('auth.required');
}

/**
 * Finds out who has this token. Secrets that were never seen before are counted where they arrive.
 * @throws {LeaseError} `auth.required`, `request.rate_limited`.
 */
export async function callerOfToken(
  deps: ContextDeps,
  request: IncomingMessage,
  secret: string,
): Promise<Caller> {
  if (deps.tokens.statusOf(secret) === 'seen') await countAnonymous(deps, request);
  const token = await deps.tokens.authenticate(secret);
  if (token === undefined) throw new LeaseError('auth.required');
  const { tokenId, ...rest } = token;
  return callerWith(deps, { principal: tokenId, ...rest, name: actorOfToken(token) });
}

function callerWith(deps: ContextDeps, access: Access): Caller {
  return { access, use: deps.fairUse.of(access) };
}

/**
 * Counts a request of nobody who is known.
 * @throws {LeaseError} `request.rate_limited`, after {@link REFUSAL_DELAY_MS} if it is answered.
 */
export async function countAnonymous(
  deps: Pick<ContextDeps, 'rates' | 'sources'>,
  request: IncomingMessage,
): Promise<void> {
  try {
    await countByAddress(deps, request, 'anonymous');
  } catch (error) {
    if (!request.socket.destroyed) await pause(REFUSAL_DELAY_MS, undefined, { ref: false });
    throw error;
  }
}

/**
 * Counts a request by its address. One that comes far too often is not answered: its socket is closed.
 * @throws {LeaseError} `request.rate_limited`.
 */
export async function countByAddress(
  deps: Pick<ContextDeps, 'rates' | 'sources'>,
  request: IncomingMessage,
  kind: 'anonymous' | 'newSecret',
): Promise<void> {
  const address = addressOf(deps, request);
  try {
    await deps.rates[kind](address);
  } catch (error) {
    if (deps.rates.isShut(kind, address)) request.socket.destroy();
    throw error;
  }
}

/**
 * Whether a request is of an address that is not answered any more, by what is known without a look into the
 * database. One that may be of somebody who is known is let through: who shares an address with an attacker is served.
 */
export function isShut(deps: ContextDeps, request: IncomingMessage): boolean {
  const address = addressOf(deps, request);
  const bearer = bearerOf(request);
  if (bearer === undefined) {
    return request.headers.cookie === undefined && deps.rates.isShut('anonymous', address);
  }
  if (isPeer(deps, request, bearer)) return false;
  const status = deps.tokens.statusOf(bearer);
  if (status === 'good') return false;
  return deps.rates.isShut(status === 'new' ? 'newSecret' : 'anonymous', address);
}

/** Also one that is meant for another datacenter, which gets an answer that tells so. */
function isPeer({ peers }: ContextDeps, request: IncomingMessage, secret: string): boolean {
  try {
    return peers.of(request, secret) !== undefined;
  } catch {
    return true;
  }
}

/** Whether a request comes with a token that was in force a moment ago. */
export function hasGoodToken({ tokens }: ContextDeps, request: IncomingMessage): boolean {
  const bearer = bearerOf(request);
  return bearer !== undefined && tokens.statusOf(bearer) === 'good';
}

/** The address that a request counts for: its caller's, also behind a proxy. */
export function addressOf(
  { sources }: Pick<ContextDeps, 'sources'>,
  request: IncomingMessage,
): string {
  return sources.of(request) ?? '';
}

/** The context of a call, over whichever transport it came. */
export function contextOf(
  deps: ContextDeps,
  request: IncomingMessage,
  {
    access,
    use,
    life,
  }: Omit<Caller, 'use'> & {
    readonly use: CallerUse;
    readonly life: CallerConnection;
  },
): ApiContext {
  // One connection carries any number of waits; each listens for its end.
  setMaxListeners(0, life.signal);
  return {
    access,
    use,
    services: deps.services,
    signal: life.signal,
    life,
    source: deps.sources.of(request),
    isForwarded: false,
  };
}

/** What a request over HTTP belongs to; undefined where no traces are sent, or it names none. */
export function traceOf({ headers }: IncomingMessage): TraceCarrier | undefined {
  if (headers['traceparent'] === undefined || activeTracer() === undefined) return undefined;
  return carrierIn(headers);
}

/** A caller over HTTP is there for as long as its socket is open: it has no other way to show it. */
export function httpCaller(request: IncomingMessage, signal: AbortSignal): CallerConnection {
  return {
    signal,
    isAlive: () => !signal.aborted && !request.socket.destroyed,
    watch: () => () => undefined,
  };
}

/** The secret of `Authorization: Bearer …`. */
export function bearerOf(request: IncomingMessage): string | undefined {
  return /^Bearer (\S+)$/u.exec(request.headers.authorization ?? '')?.[1];
}
