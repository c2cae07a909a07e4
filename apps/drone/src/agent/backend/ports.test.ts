import net from 'node:net';
import { expect, test } from 'vitest';
import { Ports } from './ports.ts';

async function listening(): Promise<{ port: number; close(): void }> {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return {
    port: address !== null && typeof address === 'object' ? address.port : 0,
    close: () => server.close(),
  };
}

test('no two backends get the same port, and a port in use by another program is skipped', async () => {
  const stranger = await listening();
  const ports = new Ports({ host: '127.0.0.1', from: stranger.port, to: stranger.port });

  expect(await ports.take('auto')).toBeUndefined();
  stranger.close();
  expect(await ports.take('auto')).toBe(stranger.port);
  expect(await ports.take('auto')).toBeUndefined();
  expect(await ports.take(stranger.port)).toBeUndefined();
  ports.giveBack(stranger.port);
  expect(await ports.take(stranger.port)).toBe(stranger.port);
});
