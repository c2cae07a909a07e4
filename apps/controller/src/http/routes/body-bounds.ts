/** Bounds the bodies of calls by their procedures, before they are parsed, and how fast one caller sends them. */
import { assertBound, assertMayCallOneOf, messageBound, type MessageBound } from '@leasehold/api';
import { LeaseError, LIMITS } from '@leasehold/keys-core';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Transform } from 'node:stream';
import type { PrincipalUse } from '../../fair-use/fair-use.ts';
import { LARGE_BYTES } from '../calls/inbox.ts';
import { callerOf, hasBody, pathsOf } from './authenticated-routes.ts';

const JSON_TYPE = /^application\/json\s*(?:;|$)/iu;

/** For all routes of a scope that is for known callers. */
export function boundBodies(scope: FastifyInstance): void {
  scope.addHook('onRoute', (route) => {
    route.bodyLimit = LIMITS.bodyBytesMax;
  });
  scope.addHook('preParsing', (request, reply, body, done) => {
    const bound = boundOf(request);
    const { use } = callerOf(request.raw);
    const bytes = lengthOf(request);
    try {
      assertReadable(request, bound, bytes);
    } catch (error) {
      void reply.header('connection', 'close');
      done(error as LeaseError);
      return;
    }
    // A small body, or none, is not piped: tRPC listens to the end of a request that has none.
    if (bytes < LARGE_BYTES) {
      use.received(bytes);
      done(null, body);
      return;
    }
    const closeAfter = (): void => void reply.header('connection', 'close');
    done(null, body.pipe(counting(bound, use, closeAfter)));
  });
  scope.addHook('preValidation', (request, _reply, done) => {
    const { body } = request;
    if (typeof body === 'string') assertBound(boundOf(request), { bytes: 0, json: body });
    done();
  });
}

/** Of a body, in bytes; infinite when it is known only at its end. */
function lengthOf(request: FastifyRequest): number {
  const length = request.headers['content-length'];
  return length === undefined && hasBody(request) ? Infinity : Number(length ?? 0);
}

/** @throws {LeaseError} `request.invalid`, `request.too_large`, `auth.forbidden`. */
function assertReadable(request: FastifyRequest, bound: MessageBound, bytes: number): void {
  // tRPC would also read forms and files, which no procedure takes.
  if (bytes > 0 && !JSON_TYPE.test(request.headers['content-type'] ?? '')) {
    throw new LeaseError('request.invalid', 'The content type must be application/json.');
  }
  if (bytes >= LARGE_BYTES) {
    assertMayCallOneOf(pathsOf(request), callerOf(request.raw).access.role);
  }
  if (Number.isFinite(bytes)) assertBound(bound, { bytes });
}

function boundOf(request: FastifyRequest): MessageBound {
  return messageBound(pathsOf(request), callerOf(request.raw).access.role);
}

/** Lets a body through, as fast as its caller may send. The rest of one that is too large is not read. */
function counting(bound: MessageBound, use: PrincipalUse, onTooLarge: () => void): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      try {
        assertBound(bound, { bytes });
      } catch (error) {
        onTooLarge();
        done(error as LeaseError);
        return;
      }
      const waitMs = use.received(chunk.length);
      if (waitMs === 0) done(null, chunk);
      else setTimeout(done, waitMs, null, chunk).unref();
    },
  });
}
