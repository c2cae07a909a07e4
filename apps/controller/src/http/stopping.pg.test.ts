import { once } from 'node:events';
import net from 'node:net';
import { waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { openTestController } from '../testing/test-controller.ts';

const UPGRADE = [
  'connection: upgrade',
  'upgrade: websocket',
  'sec-websocket-version: 13',
  'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==',
];

/** A connection that has sent nothing yet: it is left open while the server closes. */
async function connectTo(url: string): Promise<net.Socket> {
  const { hostname, port } = new URL(url);
  const socket = net.connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** The whole answer to one request, until the connection is closed. */
async function ask(socket: net.Socket, target: string, headers: string[] = []): Promise<string> {
  let answer = '';
  socket.setEncoding('utf8').on('data', (text: string) => (answer += text));
  const lines = [`GET ${target} HTTP/1.1`, 'host: controller', ...headers, '', ''];
  socket.write(lines.join('\r\n'));
  await once(socket, 'close');
  return answer;
}

/** Requests that may come on a connection that is still open. */
const REQUESTS: readonly [target: string, headers: string[]][] = [
  ['/trpc/keys.list', []],
  ['/trpc', UPGRADE],
  ['/export/keys', []],
  ['/readyz', []],
];

test('a controller that stops refuses calls and WebSockets on open connections in the form of the contract', async () => {
  const controller = await openTestController();
  const connections = await Promise.all(REQUESTS.map(() => connectTo(controller.url)));
  const closed = controller.close();
  await waitUntil(() =>
    connectTo(controller.url).then(
      () => false,
      () => true,
    ),
  );

  const answers = await Promise.all(
    connections.map((connection, index) => ask(connection, ...(REQUESTS[index] ?? ['/', []]))),
  );
  await closed;

  for (const answer of answers) {
    expect(answer).toMatch(/^HTTP\/1\.1 503 /u);
    const body: unknown = JSON.parse(
      answer.slice(answer.indexOf('{'), answer.lastIndexOf('}') + 1),
    );
    expect(body).toMatchObject({
      error: { data: { leaseholdCode: 'controller.stopping', retryable: true, httpStatus: 503 } },
    });
  }
});
