import { describeError, errorBody, type FailedCall } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { Logger } from '@leasehold/service-kit';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { isKnown } from './routes/authenticated-routes.ts';

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
        log[level](
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
  const retryAfterMs = Number(answer.details['retryAfterMs'] ?? 0);
  if (retryAfterMs > 0) void reply.header('retry-after', Math.ceil(retryAfterMs / 1_000));
  return reply.code(answer.httpStatus).send(errorBody(answer));
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
