import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describeError, errorBody, type AppRouter, type ForwardedCall } from '@leasehold/api';
import { LeaseError, type ErrorCode } from '@leasehold/keys-core';
import { createTRPCClient, httpLink } from '@trpc/client';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  createPeerClient,
  createPeerReachability,
  peerFailure,
  type PeerFailure,
} from './peer-client.ts';

/** The failure of a call that dc2 answers with this code before any procedure has seen it. */
async function failureOf(
  code: ErrorCode,
  details: Readonly<Record<string, unknown>> = {},
): Promise<PeerFailure> {
  const answer = describeError(new LeaseError(code, undefined, { details }));
  const api = createTRPCClient<AppRouter>({
    links: [
      httpLink({
        url: 'http://192.0.2.1/trpc',
        fetch: () =>
          Promise.resolve(Response.json(errorBody(answer), { status: answer.httpStatus })),
      }),
    ],
  });
  const thrown: unknown = await api.peer.ping.query().catch((error: unknown) => error);
  return peerFailure(thrown, { datacenter: 'dc2', isRepeatable: false });
}

describe('what another datacenter answers', () => {
  test.each([
    'store.unavailable',
    'grant.hold_off',
    'request.rate_limited',
    'request.deadline',
    'reservation.store_unreachable',
  ] as const)('%s is reported as a state of that datacenter, which is reachable', async (code) => {
    expect(await failureOf(code)).toMatchObject({
      kind: 'answered',
      error: { code, details: { datacenter: 'dc2' } },
    });
  });

  test('about a third one is reported with the name of the third one', async () => {
    expect(
      await failureOf('reservation.datacenter_unreachable', { datacenter: 'dc3' }),
    ).toMatchObject({ kind: 'answered', error: { details: { datacenter: 'dc3' } } });
  });

  test('about the request alone is reported unchanged', async () => {
    const { error } = await failureOf('request.invalid', { field: 'key' });

    expect(error).toMatchObject({ code: 'request.invalid', details: { field: 'key' } });
    expect(error.details).not.toHaveProperty('datacenter');
  });

  test.each(['auth.required', 'peer.refused'] as const)(
    '%s shows that it refuses this one',
    async (code) => {
      expect(await failureOf(code)).toMatchObject({
        kind: 'refused',
        error: { code: 'peer.refused', details: { datacenter: 'dc2' } },
      });
    },
  );
});

interface Answered {
  readonly status: number;
  readonly body: unknown;
}

const PONG: Answered = { status: 200, body: { result: { data: { datacenter: 'dc2' } } } };

/**
 * A datacenter that answers all calls like this, or none, after it has broken some connections; unless told otherwise
 * it was known to be away a moment ago.
 */
async function aPeer(answer: Answered | null, { brokenCount = 0, isAway = true } = {}) {
  let callCount = 0;
  const server = createServer((_request, response) => {
    callCount += 1;
    if (answer === null || callCount <= brokenCount) {
      response.destroy();
      return;
    }
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer.body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const clock = { nowMs: () => 0 };
  const reachability = createPeerReachability({
    datacenter: 'dc2',
    clock,
    onChange: () => undefined,
  });
  const client = createPeerClient(
    { name: 'dc2', url: `http://127.0.0.1:${String(port)}`, secret: 'secret' },
    { from: 'dc1', clock, reachability, onCall: () => undefined },
  );
  onTestFinished(() => client.close());
  if (isAway) reachability.failed('reservation.datacenter_unreachable');
  return client;
}

function refusal(code: ErrorCode): Answered {
  const described = describeError(new LeaseError(code));
  return { status: described.httpStatus, body: errorBody(described) };
}

describe('a datacenter that was away a moment ago', () => {
  test.each([
    ['answers', PONG],
    ['refuses the secret', refusal('auth.required')],
    ['refuses to be who it is called', refusal('peer.refused')],
    ['answers that a third one cannot be reached', refusal('reservation.datacenter_unreachable')],
    ['fails', refusal('internal.error')],
  ])('and %s now is not silent', async (_what, answer) => {
    const client = await aPeer(answer);

    expect(() => client.assertReachable()).toThrow(LeaseError);
    expect(await client.isSilent()).toBe(false);
  });

  test('and answers when one more connection has broken is not silent', async () => {
    const client = await aPeer(PONG, { brokenCount: 1 });

    expect(await client.isSilent()).toBe(false);
  });

  test('and gives no answer now is silent', async () => {
    const client = await aPeer(null);

    expect(await client.isSilent()).toBe(true);
  });
});

function read(
  client: Awaited<ReturnType<typeof aPeer>>,
  procedure: string,
  isOneOfSeveral = false,
): Promise<unknown> {
  const access: ForwardedCall['access'] = {
    principal: 'token-a',
    name: 'a token',
    role: 'operator',
    namespaces: null,
    droneId: null,
    limits: {},
  };
  const { signal } = new AbortController();
  return client.call({ procedure, input: {}, isOneOfSeveral, access, source: null, signal });
}

/** What a list may take the database of a datacenter, in milliseconds. */
const LIST_MS = 10_000;

describe('a read in another datacenter', () => {
  const found: Answered = { status: 200, body: { result: { data: 'found' } } };

  test.each(['leases.list', 'backends.logs'])(
    '%s gets more time than a list may take there',
    async (procedure) => {
      const client = await aPeer(found, { isAway: false });
      const timeout = vi.spyOn(AbortSignal, 'timeout');
      onTestFinished(() => timeout.mockRestore());

      expect(await read(client, procedure)).toBe('found');
      expect(timeout.mock.calls[0]?.[0]).toBeGreaterThan(LIST_MS);
    },
  );

  test('of several that are read together gets so little time that a page of all is answered in time', async () => {
    const client = await aPeer(found, { isAway: false });
    const timeout = vi.spyOn(AbortSignal, 'timeout');
    onTestFinished(() => timeout.mockRestore());

    await read(client, 'leases.list', true);

    expect(timeout.mock.calls[0]?.[0]).toBeLessThanOrEqual(2_000);
  });

  test('that takes all of its time does not make the datacenter unreachable', async () => {
    const client = await aPeer(found, { isAway: false });
    const timeout = vi.spyOn(AbortSignal, 'timeout');
    onTestFinished(() => timeout.mockRestore());
    timeout.mockReturnValueOnce(AbortSignal.abort());

    await expect(read(client, 'leases.list')).rejects.toMatchObject({
      code: 'reservation.datacenter_unreachable',
    });
    expect(() => client.assertReachable()).not.toThrow();
  });
});
