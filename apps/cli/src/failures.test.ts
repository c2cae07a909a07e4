import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createControllerClient } from '@leasehold/client';
import { ERROR_CODES, LeaseError, type ErrorCode } from '@leasehold/keys-core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { EXIT_CODES, failureOf } from './failures.ts';

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

async function failedQueryAt(url: string): Promise<unknown> {
  const client = createControllerClient({ url, token: '', transport: 'http' });
  onTestFinished(() => client.close());
  return client.api.keys.list.query({}).catch((error: unknown) => error);
}

describe('failureOf', () => {
  test.each<[ErrorCode, number]>([
    ['key.unheld', EXIT_CODES.refused],
    ['auth.forbidden', EXIT_CODES.notAllowed],
    ['auth.required', EXIT_CODES.notAllowed],
    ['spawn.not_allowed', EXIT_CODES.notAllowed],
    ['key.holder_unreachable', EXIT_CODES.held],
    ['lease.held', EXIT_CODES.held],
    ['lease.wait_timeout', EXIT_CODES.held],
    ['key.terminating', EXIT_CODES.held],
    ['request.invalid', EXIT_CODES.usage],
    ['config.invalid', EXIT_CODES.usage],
    ['store.unavailable', EXIT_CODES.unreachable],
    ['request.outcome_unknown', EXIT_CODES.unreachable],
    ['reservation.datacenter_unreachable', EXIT_CODES.unreachable],
    ['reservation.store_unreachable', EXIT_CODES.unreachable],
    ['reservation.key_held', EXIT_CODES.held],
    ['reservation.unknown_datacenter', EXIT_CODES.notFound],
    ['backend.not_found', EXIT_CODES.notFound],
    ['drone.not_found', EXIT_CODES.notFound],
    ['token.not_found', EXIT_CODES.notFound],
    ['request.not_found', EXIT_CODES.refused],
  ])('%s ends with %i', (code, exitCode) => {
    expect(failureOf(new LeaseError(code))).toMatchObject({ code, exitCode });
  });

  test('each code of a key that may become free ends with held', () => {
    const codes = Object.entries(ERROR_CODES).filter(
      ([code, { retryable }]) => code.startsWith('key.') && retryable,
    );

    expect(codes.length).toBeGreaterThan(1);
    for (const [code] of codes) {
      expect
        .soft(failureOf(new LeaseError(code as ErrorCode)).exitCode, code)
        .toBe(EXIT_CODES.held);
    }
  });

  test('a refusal because of a role says whose token it may be, and how to act as the administrator', () => {
    const failure = failureOf(new LeaseError('auth.forbidden', 'This needs the role operator.'));

    expect(failure.message).toBe('This needs the role operator.');
    expect(failure.hint).toMatch(/LEASEHOLD_TOKEN is set.*unset it/u);
  });

  test.each(Object.keys(ERROR_CODES) as ErrorCode[])(
    'a hint about %s names no field that only JSON has',
    (code) => {
      expect(failureOf(new LeaseError(code)).hint ?? '').not.toMatch(/\bdetails\b/u);
    },
  );

  test('a hint tells a duration that is in the details', () => {
    const error = new LeaseError('controller.overloaded', undefined, {
      details: { retryAfterMs: 1_500 },
    });

    expect(failureOf(error).hint).toContain('Try again after 1.5 s, with');
  });

  test.each([
    ['wbe', ['api', 'web'], 'Offered: api, web.\n(Did you mean web?)'],
    ['worker', ['api', 'web'], 'Offered: api, web.'],
    ['worker', [], ''],
    ['x', Array.from({ length: 12 }, (_value, at) => `long-${String(at)}`), 'long-9 and 2 more.'],
  ])('of a program %s that no drone offers it says that %j are', (program, offered, said) => {
    const error = new LeaseError('spawn.no_drone', 'No drone offers it.', {
      details: { program, offered },
    });

    const { message, hint } = failureOf(error);

    expect(message.startsWith('No drone offers it.')).toBe(true);
    expect(message.endsWith(said)).toBe(true);
    expect(hint).toContain('leasehold drones ls');
  });

  test('a refused connection is reported as unreachable, with its address', () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });

    const failure = failureOf(new Error('fetch failed', { cause }), {
      urls: ['http://10.0.0.1:4600'],
      from: { urls: 'context staging', token: 'context staging' },
    });

    expect(failure.exitCode).toBe(EXIT_CODES.unreachable);
    expect(failure.message).toContain('http://10.0.0.1:4600 (context staging)');
  });

  test('what answers and is no controller is told in one sentence, as unreachable', async () => {
    const server = createServer((_request, response) => {
      response.writeHead(404, { 'content-type': 'text/html' }).end('<html>');
    });
    const url = await listening(server);

    const failure = failureOf(await failedQueryAt(url), {
      urls: [url],
      from: { urls: 'LEASEHOLD_URL', token: 'LEASEHOLD_TOKEN' },
    });

    expect(failure).toMatchObject({ code: 'cli.unreachable', exitCode: EXIT_CODES.unreachable });
    expect(failure.message).toBe(
      `${url} answers, but is no Leasehold controller (HTTP status 404).\nThe address is from LEASEHOLD_URL.`,
    );
    expect(failure.hint).toMatch(/Correct the address/u);
  });

  test('a lost answer to a query gives no advice to repeat a change', async () => {
    const server = createServer((request) => request.socket.destroy());
    const url = await listening(server);

    const failure = failureOf(await failedQueryAt(url));

    expect(failure.exitCode).toBe(EXIT_CODES.unreachable);
    expect(failure.message).toContain(url);
    expect(`${failure.message} ${failure.hint ?? ''}`).not.toMatch(/idempotency|outcome|fetch/u);
  });

  test('an unexpected error keeps its own message', () => {
    expect(failureOf(new Error('boom'))).toMatchObject({
      message: 'boom',
      code: 'cli.unexpected',
      exitCode: EXIT_CODES.refused,
    });
  });
});
