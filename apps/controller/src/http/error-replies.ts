import { describeError, errorBody } from '@leasehold/api';
import { LeaseError, type ErrorCode } from '@leasehold/keys-core';
import type { FastifyError, FastifyInstance, FastifyReply } from 'fastify';
import type { Logger } from '@leasehold/service-kit';

/** Answers with an error in the shape of the contract, whatever route it is on. */
export function replyWithError(reply: FastifyReply, error: unknown): FastifyReply {
  const answer = describeError(error);
  return reply.code(answer.httpStatus).send(errorBody(answer));
}

/** What Fastify refuses by itself, as the contract says it. */
function codeOf(error: FastifyError): ErrorCode {
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE' || error.statusCode === 413)
    return 'request.too_large';
  const isCallersFault = error.statusCode !== undefined && error.statusCode < 500;
  return isCallersFault ? 'request.invalid' : 'internal.error';
}

/** Every error has the contract's shape, also those that no procedure has seen. */
export function installErrorReplies(server: FastifyInstance, log: Logger): void {
  server.setNotFoundHandler((_request, reply) =>
    replyWithError(reply, new LeaseError('request.not_found')),
  );
  server.setErrorHandler((error: FastifyError, request, reply) => {
    const mapped =
      error instanceof LeaseError
        ? error
        : new LeaseError(codeOf(error), undefined, { cause: error });
    const { incidentId } = describeError(mapped);
    if (incidentId !== null)
      log.error({ incidentId, url: request.routeOptions.url, err: error }, 'request failed');
    return replyWithError(reply, mapped);
  });
}
