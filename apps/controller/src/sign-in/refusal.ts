import { describeError } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { FastifyReply } from 'fastify';
import type { z } from 'zod';

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
