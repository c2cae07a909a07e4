/** Bounds the bodies of calls by their procedures, before they are parsed. */
import { assertBound, messageBound, type MessageBound } from '@leasehold/api';
import { LeaseError, LIMITS } from '@leasehold/keys-core';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Transform } from 'node:stream';
import { callerOf, hasBody, pathsOf } from './authenticated-routes.ts';

const JSON_TYPE = /^application\/json\s*(?:;|$)/iu;

/** For all routes of a scope that is for known callers. */
export function boundBodies(scope: FastifyInstance): void {
  scope.addHook('onRoute', (route) => {
    route.bodyLimit = LIMITS.bodyBytesMax;
  });
  scope.addHook('preParsing', (request, reply, body, done) => {
    const bound = boundOf(request);
    const { headers } = request;
    try {
      // tRPC would also read forms and files, which no procedure takes.
      if (hasBody(request) && !JSON_TYPE.test(headers['content-type'] ?? '')) {
        throw new LeaseError('request.invalid', 'The content type must be application/json.');
      }
      assertBound(bound, { bytes: Number(headers['content-length'] ?? 0) });
    } catch (error) {
      void reply.header('connection', 'close');
      done(error as LeaseError);
      return;
    }
    // A request without a body is not piped: tRPC listens to its end.
    const isCounted = hasBody(request) && headers['content-length'] === undefined;
    const closeAfter = (): void => void reply.header('connection', 'close');
    done(null, isCounted ? body.pipe(counting(bound, closeAfter)) : body);
  });
  scope.addHook('preValidation', (request, _reply, done) => {
    const { body } = request;
    if (typeof body === 'string') assertBound(boundOf(request), { bytes: 0, json: body });
    done();
  });
}

function boundOf(request: FastifyRequest): MessageBound {
  return messageBound(pathsOf(request), callerOf(request.raw).access.role);
}

/** Lets a body through whose length is known only at its end. The rest of one that is too large is not read. */
function counting(bound: MessageBound, onTooLarge: () => void): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      try {
        assertBound(bound, { bytes });
        done(null, chunk);
      } catch (error) {
        onTooLarge();
        done(error as LeaseError);
      }
    },
  });
}
