import { describeError, errorBody } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { FastifyError, FastifyInstance, FastifyReply } from 'fastify';
import type { Logger } from '@leasehold/service-kit';

/** Answers with an error in the shape of the contract, whatever route it is on. */
export function replyWithError(reply: FastifyReply, error: unknown): FastifyReply {
  const answer = describeError(error);
  return reply.code(answer.httpStatus).send(errorBody(answer));
}

/** What Fastify refuses by itself, as the contract says it; anything else stays what it is. */
function asOurs(error: FastifyError): Error {
  const { statusCode } = error;
  if (error instanceof LeaseError || statusCode === undefined || statusCode >= 500) return error;
  const code = statusCode === 413 ? 'request.too_large' : 'request.invalid';
  return new LeaseError(code, undefined, { cause: error });
}

/** Every error has the contract's shape, also those that no procedure has seen. */
export function installErrorReplies(server: FastifyInstance, log: Logger): void {
  server.setNotFoundHandler((_request, reply) =>
    replyWithError(reply, new LeaseError('request.not_found')),
  );
  server.setErrorHandler((error: FastifyError, request, reply) => {
    const ours = asOurs(error);
    const { incidentId } = describeError(ours);
    if (incidentId !== null) {
      log.error({ incidentId, url: request.routeOptions.url, err: error }, 'request failed');
    }
    return replyWithError(reply, ours);
  });
}
