import { request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { shareTestController, type TestController } from '../testing/test-controller.ts';
import { call, type WireAnswer } from '../testing/wire.ts';

const LARGE = JSON.stringify({ name: 'x'.repeat(140_000) });
const MANY = `{"metadata":[${'1,'.repeat(30_000)}1]}`;

describe('the body of a call', () => {
  let on: TestController;
  let secret: string;
  shareTestController(async (shared) => {
    on = shared;
    ({ secret } = await on.token('client'));
  });

  test.each([
    ['more bytes than its procedure may have', '/trpc/leases.acquire', LARGE],
    ['more values than its procedure may have', '/trpc/leases.acquire', MANY],
    ['more bytes than all of its procedures', '/trpc/leases.acquire,leases.release?batch=1', LARGE],
  ])('with %s is refused', async (_what, path, body) => {
    const answer = await call(on, path, { body, secret });

    expect(answer.status).toBe(413);
    expect(answer.body.error?.data.leaseholdCode).toBe('request.too_large');
  });

  test('of a caller that may not call its procedure is refused before it is read', async () => {
    const answer = await call(on, '/trpc/bulk.start', { body: `[${LARGE}`, secret });

    expect(answer.body.error?.data.leaseholdCode).toBe('auth.forbidden');
  });

  test('of a caller without a token is refused before it comes, and its connection is closed', async () => {
    const { hostname, port } = new URL(on.url);
    const socket = connect(Number(port), hostname);
    socket.write(
      'POST /trpc/leases.acquire HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n',
    );

    // All that comes until the end of the connection.
    const answer = await text(socket);

    expect(answer).toMatch(/^HTTP\/1\.1 401 .*^connection: close\r$/imsu);
    expect(answer).toContain('auth.required');
  });

  test('with as much as its own procedure may have is read', async () => {
    const answer = await call(on, '/trpc/leases.acquireMany', { body: LARGE, secret });

    expect(answer.body.error?.message).toContain('name: is not a known field');
  });

  test('whose length is not said is refused while it arrives', async () => {
    const answer = await new Promise<WireAnswer['body']>((resolve, reject) => {
      const sent = request(
        `${on.url}/trpc/leases.acquire`,
        {
          method: 'POST',
          headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
        },
        (response) => {
          let text = '';
          response.on('data', (part: Buffer) => (text += part.toString()));
          response.on('end', () => resolve(JSON.parse(text) as WireAnswer['body']));
        },
      );
      sent.on('error', reject);
      // Not ended: what was sent is refused before the rest has come.
      sent.write(LARGE);
    });

    expect(answer.error?.data.leaseholdCode).toBe('request.too_large');
  });

  test.each(['multipart/form-data; boundary=x', 'application/octet-stream', 'text/plain'])(
    'of the type %s is refused',
    async (type) => {
      const answer = await call(on, '/trpc/leases.acquire', { body: '{}', secret, type });

      expect(answer.body.error?.data.leaseholdCode).toBe('request.invalid');
    },
  );
});
