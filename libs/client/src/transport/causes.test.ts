/** A client that cannot reach a controller says why, for each address. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { wasNeverSent } from '@leasehold/service-kit/controllers';
import { freePort } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createLeasehold } from '../leasehold.ts';
import { failureOf } from '../testing/outcomes.ts';

/** A server of something else, such as a proxy that refuses what it does not know. */
async function aStranger(): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(403).end('<html>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

/** An address where nobody listens. */
async function nobody(): Promise<string> {
  return `127.0.0.1:${String(await freePort())}`;
}

async function failureAt(url: string | string[], transport: 'ws' | 'http') {
  const client = createLeasehold({ url, token: 'secret', transport, answerMs: 300 });
  onTestFinished(() => client.close());
  // A call may end before the first try to connect has failed.
  for (;;) {
    const failure = (await failureOf(client.defineLease(['a']).acquire('k'))) as Error;
    const causes = failure.message.split('\n')[1]?.split('; ').length ?? 0;
    if (causes >= [url].flat().length) return failure;
  }
}

describe.each(['ws', 'http'] as const)('over %s', (transport) => {
  test('nobody at the address', async () => {
    const address = await nobody();

    const failure = await failureAt(`http://${address}`, transport);

    expect(failure).toMatchObject({
      code: 'request.unreachable',
      message: `No controller can be reached.\nhttp://${address}: connect ECONNREFUSED ${address}`,
      cause: { code: 'ECONNREFUSED' },
    });
  });

  test('several addresses, each with its own cause', async () => {
    const [one, other] = [await nobody(), await nobody()];

    const failure = await failureAt([`http://${one}`, `http://${other}`], transport);

    const [text, causes, ...more] = failure.message.split('\n');
    expect(failure).toMatchObject({ code: 'request.unreachable' });
    expect([text, more]).toEqual(['No controller can be reached.', []]);
    for (const address of [one, other]) {
      expect(causes).toContain(`http://${address}: `);
    }
  });

  test('an address that does not speak TLS', async () => {
    const address = await aStranger();

    const failure = await failureAt(`https://${address}`, transport);

    const [, cause] = failure.message.split('\n');
    expect(failure).toMatchObject({ code: 'request.unreachable' });
    expect(cause).toMatch(/^https:\/\/127\.0\.0\.1:\d+: .*(?:SSL|TLS)/iu);
  });

  test('a proxy that refuses the call', async () => {
    const address = await aStranger();

    const failure = await failureAt(`http://${address}`, transport);

    const [, cause] = failure.message.split('\n');
    expect(cause).toContain(transport === 'ws' ? '403' : 'is not valid JSON');
  });
});

test.each(['ws', 'http'] as const)('over %s other calls say it too', async (transport) => {
  const address = await nobody();
  const client = createLeasehold({ url: `http://${address}`, token: '', transport, answerMs: 300 });
  onTestFinished(() => client.close());

  for (;;) {
    const failure = (await failureOf(client.reservations.reserve(['a']))) as Error;
    if (!failure.message.includes('\n')) continue;
    expect(failure).toMatchObject({
      name: 'UnreachableError',
      message: `No controller can be reached.\nhttp://${address}: connect ECONNREFUSED ${address}`,
    });
    return;
  }
});

test.each([
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'ERR_TLS_CERT_ALTNAME_INVALID',
])('nothing was sent to an address whose certificate was refused: %s', (code) => {
  const cause = Object.assign(new Error('refused'), { code });

  expect(wasNeverSent(new TypeError('fetch failed', { cause }))).toBe(true);
});
