/**
 * Finds out who sends a request before any of it is parsed, and counts the request before any of it is
 * carried out.
 */
import { setMaxListeners } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import {
  describeError,
  errorBody,
  isUrgentCall,
  type Access,
  type ApiContext,
  type ApiServices,
  type CallerConnection,
  type CallerUse,
  type FailedCall,
} from '@leasehold/api';
import { actorOfToken, LeaseError } from '@leasehold/keys-core';
import type { TokenAuthority } from '@leasehold/keys-core/access';
import type { Logger } from '@leasehold/service-kit';
import type { ConnectionGuard } from '@leasehold/service-kit/connection-guard';
import type { Sources } from '@leasehold/service-kit/source-address';
import { activeTracer, carrierIn, type TraceCarrier } from '@leasehold/service-kit/tracing';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { FairUse, PrincipalUse } from '../fair-use/fair-use.ts';
import { tooManyLookUps, type Rates } from '../fair-use/pacing.ts';
import type { PeerAccess } from '../peers/peers-config.ts';
import type { PersonAccess } from '../sign-in/sign-in.ts';
import { countedAnswer, watchAnswer } from './sockets/slow-readers.ts';

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
async function callerOfRequest(deps: ContextDeps, request: IncomingMessage): Promise<Caller> {
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

/** The datacenter that sends a request to this one with its secret, as a principal. */
export function peerOf(
  { peers }: Pick<ContextDeps, 'peers'>,
  request: IncomingMessage,
): string | undefined {
  const bearer = bearerOf(request);
  try {
    return bearer === undefined ? undefined : peers.of(request, bearer)?.principal;
  } catch {
    return undefined;
  }
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

// Routes for callers that are known: the sender of a request is found out by its headers, and its calls are
// counted by its address line, before a byte of its body is read.

const callers = new WeakMap<IncomingMessage, Caller>();

/** The caller of a request that a hook of {@link requireCaller} has let in. */
export function callerOf(request: IncomingMessage): Caller {
  const caller = callers.get(request);
  if (caller === undefined) throw new LeaseError('auth.required');
  return caller;
}

/** Whether a request comes from a caller that was let in. */
function isKnown(request: IncomingMessage): boolean {
  return callers.has(request);
}

/** Lets only known callers in, to all routes of a scope. */
export function requireCaller(
  scope: FastifyInstance,
  deps: ContextDeps & { readonly guard: ConnectionGuard },
): void {
  scope.addHook('onRoute', (route) => {
    route.config = { ...route.config, countsItself: true };
  });
  scope.addHook('onRequest', async (request, reply) => {
    let caller: Caller | undefined;
    try {
      if (hasCredentials(request.raw) && !deps.guard.claimed(request.raw)) {
        throw tooManyLookUps();
      }
      caller = await callerOfRequest(deps, request.raw);
      const { count, isUrgent } = callsOf(request);
      caller.use.countCalls(count, isUrgent);
      caller.use.assertBatch(count);
      if (!isUrgent) caller.use.assertHasRead();
      // Who has left while their token was looked up is not served: nothing would tell of their end any more, and a
      // place that they took would never be given back.
      if (reply.raw.destroyed) {
        reply.hijack();
        return;
      }
      callers.set(request.raw, caller);
      deps.guard.known(request.raw);
    } catch (error) {
      if (caller?.use.isShut === true) request.raw.socket.destroy();
      if (hasBody(request)) void reply.header('connection', 'close');
      throw error;
    }
  });
  scope.addHook('onSend', async (request: FastifyRequest, reply: FastifyReply, payload) => {
    const caller = callers.get(request.raw);
    if (caller === undefined) return payload;
    if (payload instanceof Response) return countedAnswer(reply, payload, caller.use);
    const bytes = typeof payload === 'string' ? payload.length : 0;
    watchAnswer(reply.raw, caller.use.sent(bytes));
    return payload;
  });
}

/** Gives up an answer that a stranger does not read, on any route. For known callers {@link requireCaller} does. */
export function watchStrangers(server: FastifyInstance): void {
  server.addHook('onSend', (request, reply, payload, done) => {
    if (!isKnown(request.raw)) watchAnswer(reply.raw);
    done(null, payload);
  });
}

/** The procedures that a request calls: a batch names each in its path. */
export function pathsOf({ params, query }: Pick<FastifyRequest, 'params' | 'query'>): string[] {
  const { path } = params as { path?: string };
  if (path === undefined) return [];
  return (query as Record<string, unknown>)['batch'] === undefined ? [path] : path.split(',');
}

export function hasBody({ headers }: Pick<FastifyRequest, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** How many calls a request carries. */
function callsOf(request: FastifyRequest): { count: number; isUrgent: boolean } {
  const paths = pathsOf(request);
  if (paths.length === 0) return { count: 1, isUrgent: false };
  return { count: paths.length, isUrgent: paths.every(isUrgentCall) };
}

function hasCredentials({ headers }: IncomingMessage): boolean {
  return headers.authorization !== undefined || headers.cookie !== undefined;
}

/** Logs what failed, with the incident id that the caller was told. Refusals are not failures. */
export interface FailureLog {
  /** @param level `warn` for a failure that an unknown caller can cause. */
  note(error: Error, call: FailedCall, level?: 'error' | 'warn'): void;
}

export function createFailureLog(log: Logger): FailureLog {
  return {
    note(error, call, level = 'error') {
      const { incidentId, leaseholdCode } = describeError(error);
      if (incidentId === null) log.debug({ ...call, leaseholdCode }, 'call refused');
      else {
        // That a program has failed is no failure of the controller: the end of its backend is an event.
        log[leaseholdCode === 'backend.failed' ? 'info' : level](
          { ...call, incidentId, leaseholdCode, err: error.cause ?? error },
          'call failed',
        );
      }
    },
  };
}

/** Answers with an error in the shape of the contract, whatever route it is on. */
export function replyWithError(reply: FastifyReply, error: unknown): FastifyReply {
  const answer = describeError(error);
  return reply.code(answer.httpStatus).headers(retryHeaders(answer)).send(errorBody(answer));
}

/** When the same request may succeed, in seconds, for programs that do not read the answer; none if nobody knows. */
export function retryHeaders({
  details,
}: Pick<ReturnType<typeof describeError>, 'details'>): Record<string, string> {
  const retryAfterMs = Number(details['retryAfterMs'] ?? 0);
  return retryAfterMs > 0 ? { 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) } : {};
}

/** A refusal of Fastify's own, as the contract names it; any other error stays what it is. */
export function asOurs(error: Error & Partial<Pick<FastifyError, 'statusCode'>>): Error {
  const { statusCode } = error;
  if (error instanceof LeaseError || statusCode === undefined || statusCode >= 500) return error;
  const code = statusCode === 413 ? 'request.too_large' : 'request.invalid';
  return new LeaseError(code, undefined, { cause: error });
}

/** What is logged of a request that no procedure has carried out. */
export function callOfRoute({ id, routeOptions }: FastifyRequest): FailedCall {
  return { path: routeOptions.url, requestId: id };
}

/** Answers a request whose address no route can be found for: no hook sees it, so it is counted here. */
export async function replyToUnroutable(
  deps: Pick<ContextDeps, 'rates' | 'sources'>,
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  void reply.header('x-request-id', request.id).header('cache-control', 'no-store');
  watchAnswer(reply.raw);
  try {
    await countAnonymous(deps, request.raw);
  } catch (refusal) {
    return replyWithError(reply, refusal);
  }
  return replyWithError(reply, asOurs(error));
}

/** Gives every error the contract's shape, also if it comes from no procedure. */
export function installErrorReplies(server: FastifyInstance, failures: FailureLog): void {
  server.setNotFoundHandler((_request, reply) =>
    replyWithError(reply, new LeaseError('request.not_found')),
  );
  server.setErrorHandler((error: FastifyError, request, reply) => {
    const ours = asOurs(error);
    // An unknown caller must not fill the log with errors.
    failures.note(ours, callOfRoute(request), isKnown(request.raw) ? 'error' : 'warn');
    return replyWithError(reply, ours);
  });
}
