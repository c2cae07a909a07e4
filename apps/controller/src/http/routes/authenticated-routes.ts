/**
 * Routes for callers that are known: the sender of a request is found out by its headers, and its calls are
 * counted by its address line, before a byte of its body is read.
 */
import type { IncomingMessage } from 'node:http';
import { isUrgentCall } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { ConnectionGuard } from '@leasehold/service-kit/connection-guard';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { tooManyLookUps } from '../../fair-use/rates.ts';
import { callerOfRequest, type Caller, type ContextDeps } from '../request-context.ts';
import { countedAnswer, watchAnswer } from '../sockets/slow-readers.ts';

const callers = new WeakMap<IncomingMessage, Caller>();

/** The caller of a request that a hook of {@link requireCaller} has let in. */
export function callerOf(request: IncomingMessage): Caller {
  const caller = callers.get(request);
  if (caller === undefined) throw new LeaseError('auth.required');
  return caller;
}

/** Whether a request comes from a caller that was let in. */
export function isKnown(request: IncomingMessage): boolean {
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
      caller.use.assertBatch(count);
      await caller.use.countCalls(count, isUrgent);
      if (!isUrgent) caller.use.assertHasRead();
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
