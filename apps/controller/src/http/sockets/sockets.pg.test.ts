import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { newTokenSecret } from '@leasehold/keys-core/access';
import { waitUntil } from '@leasehold/testing';
import { openSocket } from '../../testing/raw-socket.ts';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../../testing/test-controller.ts';

describe('WebSocket', () => {
  let on: TestController;
  shareTestController((shared) => {
    on = shared;
  });

  test('takes the token of its connection parameters', async () => {
    const { secret } = await on.token('viewer');
    const raw = await openSocket(on, secret);

    const reply = await raw.ask(1, 'query', 'keys.get', { name: 'demo' });

    expect(reply.result?.data).toBeNull();
  });

  test.each([
    ['none', undefined],
    ['a malformed one', 'lh_nonsense'],
    ['an unknown one', newTokenSecret()],
  ])(
    'with %s as its token gets the answer that a token is needed, and the connection ends',
    async (_what, secret) => {
      const raw = await openSocket(on, secret);

      const reply = await raw.ask(1, 'query', 'keys.list');

      expect(reply.error?.data).toMatchObject({ leaseholdCode: 'auth.required', retryable: false });
      expect(await waitUntil(raw.closedWith)).toBe(4_401);
    },
  );

  test('errors have the shape of the contract', async () => {
    const { secret } = await on.token('client');
    const raw = await openSocket(on, secret);

    const unknown = await raw.ask(1, 'query', 'keys.nothing');
    const wrong = await raw.ask(2, 'mutation', 'keys.connect', { key: { name: 'k', more: 1 } });

    expect(unknown.error?.data.leaseholdCode).toBe('request.not_found');
    expect(wrong.error?.data.leaseholdCode).toBe('request.invalid');
    expect(wrong.error?.message).toBe('key.more: is not a known field');
  });

  test('a message that is no JSON is answered, and the connection stays open', async () => {
    const { secret } = await on.token('viewer');
    const raw = await openSocket(on, secret);
    await raw.ask(1, 'query', 'keys.list');

    raw.socket.send('{"id":');
    const reply = await waitUntil(() => raw.replies.find((found) => found.error !== undefined));

    expect(reply.error?.data.leaseholdCode).toBe('request.invalid');
    expect((await raw.ask(2, 'query', 'keys.list')).result).toBeDefined();
  });

  test('a message of 10 MB ends its connection, and the controller keeps working', async () => {
    const { secret } = await on.token('viewer');
    const raw = await openSocket(on, secret);

    raw.socket.send(
      JSON.stringify({
        id: 1,
        method: 'query',
        params: { path: 'keys.get', input: { name: 'x'.repeat(10_000_000) } },
      }),
    );

    expect(await waitUntil(raw.closedWith)).toBe(1_009);
    expect((await fetch(`${on.url}/readyz`)).status).toBe(200);
  });

  test.each([
    ['in parts', (socket: WebSocket) => socket.send('{"method":', { fin: false })],
    ['binary', (socket: WebSocket) => socket.send(Buffer.from('{}'))],
    ['large', (socket: WebSocket) => socket.send('x'.repeat(5_000))],
  ])('what is %s ends a connection that has sent no token yet', async (_what, send) => {
    const socket = new WebSocket(`${on.url.replace('http', 'ws')}/trpc?connectionParams=1`);
    const closed = once(socket, 'close');
    await once(socket, 'open');

    send(socket);

    // Without an answer, and before the time for a token is over.
    expect((await closed)[0]).toBe(1_006);
  });

  test('a known caller may send a message in parts', async () => {
    const { secret } = await on.token('viewer');
    const raw = await openSocket(on, secret);
    await raw.ask(1, 'query', 'keys.list');

    raw.socket.send('{"id":2,"method":"query",', { fin: false });
    raw.socket.send('"params":{"path":"keys.list"}}', { fin: true });

    expect((await waitUntil(() => raw.repliesTo(2)[0])).result).toBeDefined();
  });

  test('a connection is ended when its token is revoked', async () => {
    const { tokenId, secret } = await on.token('viewer');
    const raw = await openSocket(on, secret);
    await raw.ask(1, 'query', 'keys.list');

    await (await on.client('admin')).tokens.revoke.mutate({ tokenId });

    expect(await waitUntil(raw.closedWith)).toBe(4_401);
    const again = await openSocket(on, secret);
    expect((await again.ask(1, 'query', 'keys.list')).error?.data.leaseholdCode).toBe(
      'auth.required',
    );
  });

  test('a connection is ended when its token expires by the database clock', async () => {
    const { tokenId, secret } = await on.token('viewer');
    const raw = await openSocket(on, secret);
    await raw.ask(1, 'query', 'keys.list');

    await on.controller.store.general.$queryRaw`
      update api_token set expires_at = clock_timestamp() where id = ${tokenId}::uuid returning id::text`;

    expect(await waitUntil(raw.closedWith)).toBe(4_401);
  });

  test('a peer that gives no sign of life is disconnected', async () => {
    const { secret } = await on.token('viewer');
    const raw = await openSocket(on, secret, { autoPong: false });
    await raw.ask(1, 'query', 'keys.list');

    const code = await waitUntil(raw.closedWith, { timeoutMs: 15_000 });

    expect(code).toBe(1_006);
  });

  test('a controller that stops tells the connected clients', async () => {
    const stopped = await startTestController();
    const { secret } = await stopped.token('viewer');
    const raw = await openSocket(stopped, secret);
    await raw.ask(1, 'query', 'keys.list');

    await stopped.controller.close();

    expect(raw.closedWith()).toBe(1_012);
  });
});
