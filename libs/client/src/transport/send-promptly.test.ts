import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { createControllerClient, type ControllerApi } from './controller-client.ts';
import { leaseholdErrorOf } from './errors.ts';

/** A client that is connected to a server that answers with errors, and the server's messages. */
async function connected(): Promise<{ api: ControllerApi; received: string[] }> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const received: string[] = [];
  server.on('connection', (socket) => {
    socket.on('message', (message: Buffer) => {
      const text = message.toString();
      if (text === 'PING') {
        socket.send('PONG');
        return;
      }
      received.push(text);
      const calls = [JSON.parse(text) as { id?: number } | { id?: number }[]].flat();
      const answers = calls.flatMap(({ id }) =>
        id === undefined ? [] : [{ id, error: { message: 'no', code: -32_000, data: {} } }],
      );
      for (const answer of answers) socket.send(JSON.stringify(answer));
    });
  });
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${String(port)}`;
  const client = createControllerClient({ url, token: 'lh_test', transport: 'ws' });
  onTestFinished(async () => {
    await client.close();
    for (const socket of server.clients) socket.terminate();
    server.close();
  });
  await askFor(client.api, 'the first');
  received.length = 0;
  return { api: client.api, received };
}

function askFor(api: ControllerApi, name: string): Promise<unknown> {
  return api.keys.get.query({ name }).catch((error: unknown) => error);
}

test('a call over a connection that is open waits for no timer', async () => {
  const { api } = await connected();
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  onTestFinished(() => void vi.useRealTimers());

  expect(await askFor(api, 'the second')).toBeInstanceOf(Error);
});

test('calls that are made together travel in one message', async () => {
  const { api, received } = await connected();

  await Promise.all(['a', 'b', 'c'].map((name) => askFor(api, name)));

  expect(received).toHaveLength(1);
  expect(JSON.parse(received[0] ?? '')).toHaveLength(3);
});

test('a call that cannot be written as JSON fails, and the next one is sent', async () => {
  const { api } = await connected();
  const endless: Record<string, unknown> = {};
  endless['self'] = endless;

  const failed = await askFor(api, endless as unknown as string);

  expect(String(failed)).toMatch(/circular/u);
  expect(leaseholdErrorOf(await askFor(api, 'after it'))).toBeDefined();
});
