/** A client that cannot reach a controller says why, for each address. */
import { generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import https from 'node:https';
import {
  createServer as createNetServer,
  type AddressInfo,
  type Server,
  type Socket,
} from 'node:net';
import { inspect } from 'node:util';
import { LeaseError } from '@leasehold/keys-core';
import { wasNeverSent } from '@leasehold/service-kit/controllers';
import { freePort } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createLeasehold } from '../index.ts';
import { failureOf } from '../testing/outcomes.ts';
import { clock, endSoon } from '../testing/quick-end.ts';
import { createControllerClient } from './controller-client.ts';
import { callErrorOf, LeaseholdCallError } from './errors.ts';

/** A server of something else, such as a proxy that refuses what it does not know. */
async function aStranger({
  status = 403,
  type = 'text/html',
  body = '<html>',
}: { status?: number; type?: string; body?: string } = {}): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(status, { 'content-type': type }).end(body);
  });
  server.on('upgrade', (_request, socket: Socket) => {
    socket.end(`HTTP/1.1 ${String(status)} Stranger\r\nConnection: close\r\n\r\n`);
  });
  onTestFinished(() => server.closeAllConnections());
  return listening(server);
}

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return `127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

/** A server whose certificate is signed by itself. */
async function selfSigned(): Promise<string> {
  return listening(https.createServer(selfSignedCertificate()));
}

/** The least that is a certificate (RFC 5280, section 4.1): Node reads some, and makes none. */
function selfSignedCertificate(): { readonly key: string; readonly cert: string } {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const [INTEGER, BITS, OID, UTF8, TIME, SEQUENCE, SET] = [2, 3, 6, 12, 23, 0x30, 0x31] as const;
  const ecdsaWithSha256 = der(SEQUENCE, der(OID, Buffer.from('2a8648ce3d040302', 'hex')));
  const commonName = [der(OID, Buffer.from('550403', 'hex')), der(UTF8, Buffer.from('itself'))];
  const name = der(SEQUENCE, der(SET, der(SEQUENCE, ...commonName)));
  const signed = der(
    SEQUENCE,
    der(INTEGER, Buffer.of(1)),
    ecdsaWithSha256,
    name,
    der(SEQUENCE, ...['200101000000Z', '491231235959Z'].map((at) => der(TIME, Buffer.from(at)))),
    name,
    pair.publicKey.export({ type: 'spki', format: 'der' }),
  );
  const signature = Buffer.concat([Buffer.of(0), sign('sha256', signed, pair.privateKey)]);
  const certificate = der(SEQUENCE, signed, ecdsaWithSha256, der(BITS, signature));
  return {
    key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.toString('base64')}\n-----END CERTIFICATE-----\n`,
  };
}

/** A value of ASN.1, as a certificate has it. */
function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 0x80 ? [length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...size), content]);
}

/** An address where nobody listens. */
async function nobody(): Promise<string> {
  return `127.0.0.1:${String(await freePort())}`;
}

/** How long a call may take here, and wait for a connection. */
const CALL_MS = 50;

/** A call may end before the first try to connect has failed: then nobody knows why, and it is made again. */
const isUnexplained = (text: string): boolean => text.includes(': no answer');

async function failureAt(url: string | string[], transport: 'ws' | 'http') {
  const client = createLeasehold({
    url,
    token: 'secret',
    transport,
    clock,
    answerMs: CALL_MS,
    // Over HTTP, a lease that may be waited for is asked for again for a third of this.
    ...(transport === 'http' && { connectMs: CALL_MS }),
  });
  onTestFinished(() => endSoon(client));
  for (;;) {
    const failure = (await failureOf(client.defineLease(['a']).acquire('k'))) as Error;
    if (isUnexplained(failure.message)) continue;
    const causes = failure.message.split('; ').length;
    if (failure.message.includes('://') && causes >= [url].flat().length) return failure;
  }
}

/** How the failure of a query is printed. */
async function queryFailureAt(url: string, transport: 'ws' | 'http'): Promise<string> {
  const client = createLeasehold({ url, token: 'secret', transport, connectMs: CALL_MS });
  onTestFinished(() => client.close());
  for (;;) {
    const text = inspect(await failureOf(client.api.keys.get.query({ name: 'k' })));
    if (!isUnexplained(text)) return text;
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

    expect(failure).toMatchObject({
      code: 'request.unreachable',
      message: `https://${address} does not speak TLS: use http://`,
    });
  });

  test('addresses whose certificates nobody trusts, each with its own cause', async () => {
    const urls = [await selfSigned(), await selfSigned()].map((address) => `https://${address}`);

    const failure = await failureAt(urls, transport);

    const [text, causes = '', ...more] = failure.message.split('\n');
    expect(failure).toMatchObject({ code: 'request.unreachable' });
    expect([text, more]).toEqual(['No controller can be reached.', []]);
    expect(causes.split('; ').sort()).toEqual(
      urls.map((url) => `${url}: self-signed certificate (DEPTH_ZERO_SELF_SIGNED_CERT)`).sort(),
    );
  });

  test.each([
    ['a page', 404, '<html>'],
    ['a refusal of a proxy', 403, '<html>'],
    ['an answer of the gateway', 401, '{"error":{"code":"gateway.token_required"}}'],
    ['JSON of something else', 404, '{"ok":true}'],
  ])('%s is reported as what it is, in one sentence', async (_what, status, body) => {
    const address = await aStranger({ status, body });

    const failure = await failureAt(`http://${address}`, transport);

    expect(failure).toMatchObject({
      code: 'request.unreachable',
      message: `http://${address} answers, but is no Leasehold controller (HTTP status ${String(status)})`,
      hint: expect.stringContaining('Correct the address') as string,
    });
  });

  test('an address that speaks something else than HTTP', async () => {
    const server = createNetServer((socket) => socket.end('E something else\n'));

    const failure = await queryFailureAt(`http://${await listening(server)}`, transport);

    expect(failure).toContain('does not speak HTTP');
    expect(failure).not.toMatch(/idempotency/u);
  });

  test('an address that closes each connection gives a query no advice to repeat a change', async () => {
    const server = createNetServer((socket) => {
      socket.once('data', () => socket.destroy());
    });
    const url = `http://${await listening(server)}`;

    const failure = await queryFailureAt(url, transport);

    expect(failure).toContain(url);
    expect(failure).not.toMatch(/idempotency|outcome is/u);
  });
});

test.each([
  [500, 'text/html', '<html>'],
  [502, 'text/html', '<html>'],
  [408, 'text/html', '<html>'],
  // The end is lost.
  [200, 'application/json', '{"result":{"da'],
])(
  'over http the outcome is unknown after an answer %s of a proxy that may have passed the change on: %s %s',
  async (status, type, body) => {
    const address = await aStranger({ status, type, body });
    const client = createControllerClient({
      url: `http://${address}`,
      token: '',
      transport: 'http',
    });
    onTestFinished(() => client.close());

    const failure = callErrorOf(await failureOf(client.api.tokens.revoke.mutate({ tokenId: 't' })));

    expect(failure).toMatchObject({
      code: 'request.outcome_unknown',
      message: expect.stringContaining(String(status)) as string,
    });
  },
);

test.each(['ws', 'http'] as const)('over %s other calls say it too', async (transport) => {
  const address = await nobody();
  const url = `http://${address}`;
  const client = createLeasehold({ url, token: '', transport, answerMs: CALL_MS });
  onTestFinished(() => client.close());

  for (;;) {
    const failure = (await failureOf(client.reservations.reserve(['a']))) as Error;
    if (!failure.message.includes('\n') || isUnexplained(failure.message)) continue;
    expect(failure).toMatchObject({
      name: 'UnreachableError',
      message: `No controller can be reached.\n${url}: connect ECONNREFUSED ${address}`,
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

test('a refusal of this process, as when too many calls wait, is an error of this library', () => {
  const refusal = new LeaseError('request.rate_limited', 'too many', { details: { waiting: 9 } });

  const error = callErrorOf(refusal);

  expect(error).toBeInstanceOf(LeaseholdCallError);
  expect(error).toMatchObject({
    code: 'request.rate_limited',
    message: 'too many',
    retryable: true,
    details: { waiting: 9 },
    cause: refusal,
  });
});
