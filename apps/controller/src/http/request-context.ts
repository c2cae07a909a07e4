import type { Access, ApiContext, ApiServices, CallerConnection } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { TokenAuthority } from '@leasehold/keys-core/store';
import { setMaxListeners } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { PersonAccess } from '../sign-in/person-access.ts';
import type { PeerAccess } from '../peers/peer-access.ts';
import type { RateLimit } from './rate-limit.ts';
import type { SourceAddress } from './source-address.ts';

export interface ContextDeps {
  readonly services: ApiServices;
  readonly tokens: TokenAuthority;
  readonly people: PersonAccess;
  readonly peers: PeerAccess;
  readonly sourceOf: SourceAddress;
}

/**
 * What a request or a connection comes with, whichever way it came. A token counts before a cookie:
 * whoever shows one means it.
 * @throws {LeaseError} `auth.csrf` when a cookie came from another site than the console.
 */
export async function requestContext(
  deps: ContextDeps,
  request: IncomingMessage,
  call: {
    readonly token?: string | undefined;
    /** Any site may open a WebSocket, so there cookies mean nothing. */
    readonly isCookieTaken: boolean;
    readonly life: CallerConnection;
  },
): Promise<ApiContext> {
  // One connection carries any number of waits; each listens for its end.
  setMaxListeners(0, call.life.signal);
  return {
    access: await accessOf(deps, request, call),
    services: deps.services,
    signal: call.life.signal,
    life: call.life,
    source: deps.sourceOf(request),
    isForwarded: false,
  };
}

async function accessOf(
  deps: ContextDeps,
  request: IncomingMessage,
  call: { readonly token?: string | undefined; readonly isCookieTaken: boolean },
): Promise<Access | undefined> {
  const bearer = bearerOf(request);
  // A peer speaks HTTP, and brings its secret there.
  const peer = bearer === undefined ? undefined : deps.peers.of(request, bearer);
  if (peer !== undefined) return peer;
  const secret = call.token ?? bearer;
  if (secret !== undefined) return accessOfToken(deps.tokens, secret);
  return call.isCookieTaken ? deps.people.accessOf(request) : undefined;
}

async function accessOfToken(tokens: TokenAuthority, secret: string): Promise<Access | undefined> {
  const token = await tokens.authenticate(secret);
  if (token === undefined) return undefined;
  const { tokenId, ...rest } = token;
  return { principal: tokenId, ...rest };
}

/** A caller over HTTP is there for as long as its socket is open: it has no way to say more. */
export function httpCaller(request: IncomingMessage, signal: AbortSignal): CallerConnection {
  return {
    signal,
    isAlive: () => !signal.aborted && !request.socket.destroyed,
    watch: () => () => undefined,
  };
}

/**
 * Counts a request over HTTP: another datacenter by its name, for several may share a secret; with a
 * good token by the token, else by the address, so that nobody is served more by making secrets up.
 * @throws {LeaseError} `request.rate_limited`, `peer.refused`.
 */
export function countRequest(
  deps: {
    readonly tokens: TokenAuthority;
    readonly peers: PeerAccess;
    readonly rateLimit: RateLimit;
    readonly sourceOf: SourceAddress;
  },
  request: IncomingMessage,
): void {
  const address = deps.sourceOf(request) ?? '';
  const { caller, isNew } = countedOf(deps, request, address);
  const mayAsk = deps.rateLimit.mayAsk(caller);
  if (!mayAsk || (isNew && !deps.rateLimit.mayTry(address))) {
    throw new LeaseError('request.rate_limited');
  }
}

/** Under which name a request is counted, and whether its secret was never seen before. */
function countedOf(
  deps: { readonly tokens: TokenAuthority; readonly peers: PeerAccess },
  request: IncomingMessage,
  address: string,
): { readonly caller: string; readonly isNew: boolean } {
  const secret = bearerOf(request);
  if (secret === undefined) return { caller: address, isNew: false };
  const peer = deps.peers.of(request, secret);
  if (peer !== undefined) return { caller: peer.principal, isNew: false };
  const standing = deps.tokens.standingOf(secret);
  return { caller: standing === 'good' ? secret : address, isNew: standing === 'new' };
}

/** The secret of `Authorization: Bearer …`. */
export function bearerOf(request: IncomingMessage): string | undefined {
  return /^Bearer (\S+)$/u.exec(request.headers.authorization ?? '')?.[1];
}
