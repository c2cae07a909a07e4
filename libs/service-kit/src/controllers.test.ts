import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { ControllerChoice } from './controllers.ts';

/** An address that takes connections, and never answers. */
async function silentAddress(): Promise<Server> {
  const server = createServer((socket) => socket.on('error', () => undefined));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return server;
}

test('a call that is given up while no address answers fails at once, and no further address is asked', async () => {
  const servers = [await silentAddress(), await silentAddress(), await silentAddress()] as const;
  const asked = servers.map(() => 0);
  for (const [place, server] of servers.entries()) {
    server.on('connection', () => (asked[place] = (asked[place] ?? 0) + 1));
  }
  const choice = new ControllerChoice(
    servers.map((server) => `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`),
  );
  const givingUp = new AbortController();
  const choosing = choice.choose(givingUp.signal);
  const [first] = (await once(servers[0], 'connection')) as [Socket];
  const firstIsOver = once(first.resume(), 'close');

  givingUp.abort(new Error('closed'));

  await expect(choosing).rejects.toThrow('closed');
  await firstIsOver;
  await setImmediate();
  expect(asked.slice(1)).toEqual([0, 0]);
});
