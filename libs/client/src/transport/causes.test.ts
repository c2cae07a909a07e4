/** A client that cannot reach a controller says why, for each address. */
import { generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import https from 'node:https';
import type { AddressInfo, Server } from 'node:net';
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
