import { once } from 'node:events';
import net, { type AddressInfo, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { StrangerBounds } from './stranger-bounds.ts';

/** Connections of one address, as a server has accepted them. */
async function accepted(count: number): Promise<Socket[]> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sockets: Socket[] = [];
  for (let nth = 0; nth < count; nth += 1) {
    const client = net.connect((server.address() as AddressInfo).port, '127.0.0.1');
    const [socket] = (await once(server, 'connection')) as [Socket];
    onTestFinished(() => {
      client.destroy();
      socket.destroy();
    });
    sockets.push(socket);
  }
  onTestFinished(() => void server.close());
  return sockets;
}

function boundsAt(time: { nowMs: number }): StrangerBounds {
  const never = (): void => undefined;
  const clock = { nowMs: () => time.nowMs, at: () => never, onTick: () => never };
  return new StrangerBounds(clock, () => true);
}

test('a connection has ten answers in a second, and one where its address has had sixty-four', async () => {
  const time = { nowMs: 0 };
  const bounds = boundsAt(time);
  const [first, other, last] = await accepted(3);
  if (first === undefined || other === undefined || last === undefined) throw new Error('three');

  for (let nth = 0; nth < 9; nth += 1) bounds.answered(first);
  expect(bounds.isSilenced(first)).toBe(false);
  bounds.answered(first);
  expect(bounds.isSilenced(first)).toBe(true);

  for (let nth = 0; nth < 54; nth += 1) bounds.answered(first);
  expect(bounds.isSilenced(other)).toBe(false);
  bounds.answered(other);
  expect(bounds.isSilenced(other)).toBe(true);

  time.nowMs = 1_000;
  bounds.answered(last);
  expect(bounds.isSilenced(last)).toBe(false);
});
