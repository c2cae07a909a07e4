/** What the routes of sign-in share. */
import { describeError } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import type { Sources } from '@leasehold/service-kit/source-address';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { Rates } from '../fair-use/pacing.ts';
import type { FailureLog } from '../http/request-context.ts';
import type { SignIn } from './sign-in.ts';

export interface SignInDeps {
  readonly store: Store;
  readonly signIn: SignIn;
  readonly rates: Rates;
  readonly failures: FailureLog;
  readonly sources: Sources;
  readonly log: Logger;
}

/** The same, with the parts that a server has once. */
export interface SignInParts extends SignInDeps {
  /** Checks a password when its turn has come. */
  readonly atGate: ReturnType<typeof createPasswordGate>;
  /** @throws {LeaseError} `request.rate_limited` when this address tries too often. */
  countTry(request: FastifyRequest): Promise<void>;
}

/** Sends cookies on; each is a header of its own. */
export function setCookies(reply: FastifyReply, cookies: readonly string[]): void {
  if (cookies.length > 0) void reply.header('set-cookie', [...cookies]);
}

/** The refusal of a sign-in: a status, a code, and a sentence. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    status: number,
    code: string,
    message: string,
    details: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

/** The body of a request, checked. @throws {Refusal} that names the field and what it must be. */
export function checkedBody<Value>(schema: z.ZodType<Value>, body: unknown): Value {
  const parsed = schema.safeParse(body ?? {});
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const field = issue?.path.join('.') ?? '';
  throw new Refusal(
    400,
    'request.invalid',
    `${field === '' ? 'body' : field}: ${issue?.message ?? 'is not valid'}`,
  );
}

/** Answers with `{ code, message }`, and with the details of the code. */
export function replyWithRefusal(reply: FastifyReply, error: unknown): FastifyReply {
  if (error instanceof Refusal) {
    const { code, message, details } = error;
    return reply.code(error.status).send({ code, message, ...details });
  }
  const answer = describeError(error);
  const { leaseholdCode, incidentId, httpStatus } = answer;
  const message = error instanceof LeaseError ? error.message : 'Something went wrong.';
  return reply.code(httpStatus).send({
    code: leaseholdCode,
    message,
    ...(incidentId === null ? {} : { incidentId }),
  });
}

/** Each password check takes a core for a while, and 32 MiB. */
const AT_ONCE_MAX = 2;
const WAITING_MAX = 32;

/**
 * Checks only a few passwords at a time, so that a flood of sign-ins leaves leases their cores.
 * @throws {LeaseError} `request.rate_limited` when too many wait already.
 */
export function createPasswordGate(): <Answer>(work: () => Promise<Answer>) => Promise<Answer> {
  const waiting: (() => void)[] = [];
  let runningCount = 0;
  return async (work) => {
    if (runningCount >= AT_ONCE_MAX) {
      if (waiting.length >= WAITING_MAX) throw new LeaseError('request.rate_limited');
      // A check that finishes hands its place on: the count does not change.
      await new Promise<void>((resolve) => waiting.push(resolve));
    } else {
      runningCount += 1;
    }
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) runningCount -= 1;
      else next();
    }
  };
}
