/** Needs `openssl`, which makes the certificate. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import https from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { json } from 'node:stream/consumers';
import { waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import {
  openGatewayStage,
  startBackend,
  type EchoedRequest,
  type StageClock,
} from './testing/gateway-stage.ts';

/** A gateway with a certificate for 127.0.0.1, which `ca` trusts, in front of a program. */
async function openEncrypted(clock: StageClock = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), 'leasehold-gateway-tls-'));
  onTestFinished(() => rmSync(folder, { recursive: true, maxRetries: 10 }));
  const [cert, key] = [path.join(folder, 'cert.pem'), path.join(folder, 'key.pem')];
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...subject];
  execFileSync('openssl', [...made, '-keyout', key, '-out', cert], { stdio: 'ignore' });
  const variables = { LEASEHOLD_GATEWAY_TLS_CERT: cert, LEASEHOLD_GATEWAY_TLS_KEY: key };
  const stage = await openGatewayStage(variables, undefined, clock);
  const backend = await startBackend();
  stage.controller.address = backend.address;
  const ca = readFileSync(cert);
  const get = async (url: string, headers = {}): Promise<IncomingMessage> => {
    const request = https.get({ host: '127.0.0.1', port: stage.port, path: url, ca, headers });
    return ((await once(request, 'response')) as [IncomingMessage])[0];
  };
  return { stage, ca, get, token: await stage.controller.sign() };
}

test('with a certificate requests and WebSockets are encrypted, and backends and cookies are told so', async () => {
  const { stage, ca, get, token } = await openEncrypted();

  const page = await get(`/t/${token}/`, { accept: 'text/html', 'sec-fetch-mode': 'cors' });
  const opened = await get(`/t/${token}/`, {
    accept: 'text/html',
    'sec-fetch-mode': 'navigate',
    'sec-fetch-dest': 'document',
  });
  const { port } = stage;
  const socket = new WebSocket(`wss://127.0.0.1:${String(port)}/t/${token}/`, { ca });
  onTestFinished(() => socket.terminate());
  const [first] = (await once(socket, 'message')) as [Buffer];

  expect(stage.gateway.url).toBe(`https://127.0.0.1:${String(port)}`);
  expect(((await json(page)) as EchoedRequest).headers).toMatchObject({
    'x-forwarded-proto': 'https',
  });
  expect(opened.headers['set-cookie']?.[0]).toContain('; Secure');
  const { headers } = JSON.parse(first.toString()) as EchoedRequest;
  expect(headers['x-forwarded-proto']).toBe('https');
});

test('what does not speak TLS gets no answer, and the gateway goes on', async () => {
  const { stage, get, token } = await openEncrypted();

  const said = await stage.raw(`GET /t/${token}/ HTTP/1.1\r\nHost: a\r\n\r\n`);

  expect(said).not.toContain('200');
  expect((await get(`/t/${token}/`)).statusCode).toBe(200);
  const metrics = await (await fetch(`${stage.gateway.metricsUrl}/metrics`)).text();
  expect(metrics).not.toContain('leasehold_gateway_refusals_total{');
  await waitUntil(() => !stage.log().includes('a request failed'));
});

test('over TLS too, nothing more is read of a stranger who sends requests as fast as it can', async () => {
  const { stage, ca } = await openEncrypted({ isStill: true });
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1, ca });
  onTestFinished(() => agent.destroy());
  let answered = 0;
  let failure: unknown;
  const askOn = async (): Promise<void> => {
    const request = https.get({ host: '127.0.0.1', port: stage.port, path: '/nothing', agent });
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    await once(answer.resume(), 'end');
    answered += 1;
    await askOn();
  };
  askOn().catch((error: unknown) => (failure = error));
  await waitUntil(() => {
    if (answered >= 10) stage.passTime(500);
    return failure !== undefined;
  });
  expect(answered).toBeLessThan(20);
});
