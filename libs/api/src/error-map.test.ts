import { TRPCError } from '@trpc/server';
import { describe, expect, test } from 'vitest';
import { ERROR_CODES, LeaseError, type ErrorCode } from '@leasehold/keys-core';
import { z } from 'zod';
import { describeError, errorBody, errorData, toTrpcError, trpcCodeOfStatus } from './error-map.ts';

const CODES = Object.keys(ERROR_CODES) as ErrorCode[];

/** A failure of the database as Prisma with the pg adapter throws it. */
function databaseError(sqlState: string): Error {
  return Object.assign(new Error('Raw query failed'), {
    code: 'P2010',
    meta: { driverAdapterError: { cause: { originalCode: sqlState } } },
  });
}

function zodErrorOf(schema: z.ZodType, value: unknown): z.ZodError {
  const { error } = schema.safeParse(value);
  if (error === undefined) throw new Error('the value was meant to be wrong');
  return error;
}

describe('error map', () => {
  test.each(CODES)('%s keeps its code, its status and whether it may be retried', (code) => {
    const answer = describeError(new LeaseError(code));

    expect(answer).toMatchObject({
      leaseholdCode: code,
      httpStatus: ERROR_CODES[code].http,
      retryable: ERROR_CODES[code].retryable,
      message: ERROR_CODES[code].text,
    });
    expect(trpcCodeOfStatus(answer.httpStatus)).toBeDefined();
  });

  test('an expected error shows its own message and details', () => {
    const error = new LeaseError('key.terminating', 'wait a little', {
      details: { remainingMs: 5 },
    });

    expect(describeError(error)).toMatchObject({
      message: 'wait a little',
      details: { remainingMs: 5 },
      incidentId: null,
    });
  });

  test('an internal error shows an incident id, and neither its message nor its details', () => {
    const error = new LeaseError('config.invalid', 'password=hunter2', {
      details: { secret: 'lh_x' },
    });

    const answer = describeError(error);

    expect(JSON.stringify(answer)).not.toMatch(/hunter2|lh_x/u);
    expect(answer.incidentId).toMatch(/^[0-9a-f-]{36}$/u);
  });

  test('anything unknown that is thrown becomes an internal error', () => {
    for (const thrown of [new Error('select secret'), 'a string', undefined, null, 7]) {
      const answer = describeError(thrown);
      expect(answer).toMatchObject({ leaseholdCode: 'internal.error', httpStatus: 500 });
      expect(answer.message).toBe(ERROR_CODES['internal.error'].text);
    }
  });

  test('the log and the answer name the same incident, even after the error was wrapped', () => {
    const error = new Error('boom');

    const wrapped = toTrpcError(error);

    expect(describeError(wrapped).incidentId).toBe(describeError(error).incidentId);
    expect(describeError(error).incidentId).toBe(describeError(error).incidentId);
  });

  test.each([
    ['40P01', 'grant.contended'],
    ['40001', 'grant.contended'],
    ['55P03', 'grant.contended'],
    ['57014', 'request.deadline'],
    ['57P01', 'request.outcome_unknown'],
    ['08006', 'request.outcome_unknown'],
    ['57P03', 'store.unavailable'],
    ['53300', 'store.unavailable'],
    ['53100', 'store.unavailable'],
    ['58030', 'store.unavailable'],
    ['XX001', 'internal.error'],
    ['22P05', 'internal.error'],
    ['42601', 'internal.error'],
  ] as const)('SQLSTATE %s is %s', (sqlState, code) => {
    expect(describeError(databaseError(sqlState)).leaseholdCode).toBe(code);
    expect(describeError(toTrpcError(databaseError(sqlState))).leaseholdCode).toBe(code);
  });

  test.each([
    ["the database's", databaseError('53100')],
    ["the controller's", Object.assign(new Error('write'), { code: 'ENOSPC' })],
    [
      'a disk behind an error of the store',
      new LeaseError('store.unavailable', undefined, { cause: databaseError('53100') }),
    ],
  ])('a full disk is named, and the error is retryable: %s', (_whose, error) => {
    expect(describeError(error)).toMatchObject({
      leaseholdCode: 'store.unavailable',
      retryable: true,
      message: expect.stringContaining('disk is full') as string,
      details: { reason: 'disk_full' },
    });
  });

  test('a database that is read-only is named, also behind an error of the store', () => {
    const cause = databaseError('25006');

    for (const error of [cause, new LeaseError('store.unavailable', undefined, { cause })]) {
      expect(describeError(error)).toMatchObject({
        leaseholdCode: 'store.unavailable',
        retryable: true,
        details: { reason: 'read_only' },
      });
    }
  });

  test.each([
    ['NOT_FOUND', 'request.not_found'],
    ['METHOD_NOT_SUPPORTED', 'request.not_found'],
    ['PARSE_ERROR', 'request.invalid'],
    ['BAD_REQUEST', 'request.invalid'],
    ['UNSUPPORTED_MEDIA_TYPE', 'request.invalid'],
    ['PAYLOAD_TOO_LARGE', 'request.too_large'],
    ['UNAUTHORIZED', 'auth.required'],
    ['TOO_MANY_REQUESTS', 'request.rate_limited'],
    ['CLIENT_CLOSED_REQUEST', 'request.deadline'],
    ['TIMEOUT', 'internal.error'],
    ['INTERNAL_SERVER_ERROR', 'internal.error'],
  ] as const)('a request that tRPC itself refuses with %s has the code %s', (trpcCode, code) => {
    const error = new TRPCError({ code: trpcCode, message: 'an internal remark' });

    expect(describeError(error)).toMatchObject({
      leaseholdCode: code,
      message: ERROR_CODES[code].text,
    });
  });

  test('a call whose caller has gone away ends with request.deadline', () => {
    const aborted = new DOMException('gone', 'AbortError');

    expect(describeError(aborted).leaseholdCode).toBe('request.deadline');
  });

  test('a lease error inside a tRPC error keeps its own code', () => {
    const error = new TRPCError({
      code: 'INTERNAL_SERVER_ERROR',
      cause: new LeaseError('key.unheld'),
    });

    expect(describeError(error).leaseholdCode).toBe('key.unheld');
    expect(toTrpcError(error)).toMatchObject({ code: 'CONFLICT' });
  });

  test('an error that tRPC has named is returned unchanged', () => {
    const refused = new TRPCError({ code: 'BAD_REQUEST' });
    const internal = new TRPCError({ code: 'INTERNAL_SERVER_ERROR' });

    expect(toTrpcError(refused)).toBe(refused);
    expect(toTrpcError(internal)).toBe(internal);
    expect(toTrpcError('text')).toMatchObject({ code: 'INTERNAL_SERVER_ERROR' });
  });

  test('wrong fields are named by their path, with the values that are allowed', () => {
    const schema = z.strictObject({
      key: z.strictObject({ name: z.string() }),
      list: z.array(z.strictObject({ id: z.number() })),
      mode: z.enum(['soft', 'hard']),
    });

    const answer = describeError(
      zodErrorOf(schema, {
        key: { name: 7 },
        list: [{ id: 1 }, { id: 'x' }],
        mode: 'medium',
        more: 1,
      }),
    );

    expect(answer.leaseholdCode).toBe('request.invalid');
    expect(answer.message).toContain('key.name: Invalid input: expected string, received number');
    expect(answer.message).toContain('list[1].id:');
    expect(answer.message).toContain('mode: Invalid option: expected one of "soft"|"hard"');
    expect(answer.message).toContain('more: is not a known field');
  });

  test('a request that is not an object is named "input" in the message', () => {
    expect(describeError(zodErrorOf(z.strictObject({}), 'text')).message).toMatch(/^input: /u);
  });

  test('a field name that the caller chose cannot flood or garble the message', () => {
    const fields = Object.fromEntries(
      Array.from({ length: 50 }, (_, index) => [
        `\u001b[31m${String(index)}${'x'.repeat(10_000)}`,
        1,
      ]),
    );

    const { message } = describeError(zodErrorOf(z.strictObject({}), fields));

    expect(message.length).toBeLessThan(2_000);
    expect(message).not.toMatch(/\p{Cc}/u);
  });

  test('the body on the wire has the shape of the contract', () => {
    const answer = describeError(new LeaseError('auth.forbidden', 'no'));

    expect(errorBody(answer)).toEqual({
      error: { message: 'no', code: -32_003, data: errorData(answer) },
    });
    expect(errorData(answer)).toEqual({
      code: 'FORBIDDEN',
      httpStatus: 403,
      leaseholdCode: 'auth.forbidden',
      retryable: false,
      incidentId: null,
      details: {},
    });
  });
});
