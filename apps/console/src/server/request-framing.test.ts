import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { startConsole, startUpstream } from './console-server-for-test.ts';

/** What the console answers on a connection until it ends. */
async function speak(consoleUrl: string, text: string): Promise<{ said: string }> {
  const { port, hostname } = new URL(consoleUrl);
  const socket = connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  socket.write(text);
  let said = '';
  for await (const bytes of socket) said += String(bytes);
  return { said };
}

const HIDDEN = 'GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n';
const FRAMINGS = [
  `content-length: ${String(HIDDEN.length)}\r\nconnection: close\r\n\r\n${HIDDEN}`,
  `content-length: ${String(HIDDEN.length)}\r\nconnection: close, Content-Length\r\n\r\n${HIDDEN}`,
  `transfer-encoding: chunked\r\nconnection: close, transfer-encoding\r\n\r\n` +
    `${HIDDEN.length.toString(16)}\r\n${HIDDEN}\r\n0\r\n\r\n`,
];

test.each(FRAMINGS.flatMap((framing) => ['GET', 'DELETE', 'OPTIONS'].map((m) => [m, framing])))(
  'an unexpected body cannot be taken for a second request: %s, %j',
  async (method, framing) => {
    const upstream = await startUpstream((_request, response) => response.end('ok'));
    const url = await startConsole(upstream.url);

    const { said } = await speak(url, `${method} /trpc/a HTTP/1.1\r\nhost: x\r\n${framing}`);
    await fetch(`${url}/trpc/next`);

    expect(said).toMatch(/^HTTP\/1\.1 400 /u);
    expect(said).toContain('"body: must be empty, with this method."');
    expect(upstream.asked.map((asked) => asked.url)).toEqual(['/trpc/next']);
  },
);

test.each(FRAMINGS)(
  'a body keeps its length, whatever the Connection header names: %j',
  async (framing) => {
    const upstream = await startUpstream((request, response) => {
      request.once('end', () => response.end('ok'));
    });
    const url = await startConsole(upstream.url);

    const { said } = await speak(url, `POST /trpc/a HTTP/1.1\r\nhost: x\r\n${framing}`);

    expect(said).toContain('200 OK');
    expect(upstream.asked).toMatchObject([{ url: '/trpc/a', body: HIDDEN }]);
    const isChunked = framing.startsWith('transfer');
    expect(upstream.asked[0]?.headers).toMatchObject(
      isChunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(HIDDEN.length) },
    );
  },
);

test('a request cannot remove its caller and source address by naming it in Connection', async () => {
  const upstream = await startUpstream((_request, response) => response.end('ok'));
  const url = await startConsole(upstream.url);
  const told = { cookie: 's=1', authorization: 'Bearer t', origin: 'http://other.example' };
  const all = { ...told, 'x-leasehold-csrf': 't', 'x-forwarded-for': '203.0.113.7' };
  const lines = Object.entries(all).map((line) => line.join(': '));

  await speak(
    url,
    ['GET /trpc/a HTTP/1.1', 'host: x', ...lines].join('\r\n') +
      `\r\nconnection: close, Host, ${Object.keys(all).join(',')}\r\n\r\n`,
  );

  expect(upstream.asked).toMatchObject([
    { headers: { ...told, 'x-leasehold-csrf': 't', 'x-forwarded-for': '127.0.0.1' } },
  ]);
  expect(upstream.asked[0]?.headers['host']).toBe(upstream.url.host);
});
