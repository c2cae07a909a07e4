import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Ports } from './ports.ts';
import { StartFailed } from './warden-link.ts';

/** Below the kernel's own ports, and in no range of `freePort` or of other tests' drones. */
const FROM = 30_000;

const silent = { info: (): void => undefined };

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
  const ports = new Ports(
    { host: '127.0.0.1', from: stranger.port, to: stranger.port },
    silent,
    () => 0,
  );

  expect(await ports.take('auto')).toBeUndefined();
  stranger.close();
  expect(await ports.take('auto')).toBe(stranger.port);
  expect(await ports.take('auto')).toBeUndefined();
  expect(await ports.take(stranger.port)).toBeUndefined();
  ports.giveBack(stranger.port, 0);
  expect(await ports.take(stranger.port)).toBe(stranger.port);
});

/** Another drone, as far as its ports are concerned: it takes one of a range and keeps it. */
async function otherDrone(range: { from: number; to: number }): Promise<number> {
  const program = `
    import { Ports } from '${new URL('ports.ts', import.meta.url).href}';
    const ports = new Ports({ host: '127.0.0.1', from: ${String(range.from)}, to: ${String(range.to)} }, { info: () => undefined }, () => 0);
    process.stdout.write(String(await ports.take('auto')));
    setInterval(() => undefined, 1_000);`;
  const args = ['--import', 'tsx', '--input-type=module', '-e', program];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [printed] = (await once(child.stdout, 'data')) as [Buffer];
  return Number(printed.toString());
}

test('two drones of one machine with one range give out different ports, and the second one is told', async () => {
  const range = { from: FROM, to: FROM + 199 };
  const first = await otherDrone(range);
  const shared: unknown[] = [];
  const log = { info: (ports: unknown): void => void shared.push(ports) };
  const ports = new Ports({ host: '127.0.0.1', ...range }, log, () => 0);

  const second = await ports.take('auto');

  expect([first, second, shared]).toEqual([FROM, FROM + 100, [{ from: FROM, to: FROM + 99 }]]);
});

test('a reservation of every block, which any process can make, keeps no drone from its ports', async () => {
  const range = { from: FROM + 200, to: FROM + 299 };
  const squatter = net.createServer().listen('\0leasehold-ports-302');
  onTestFinished(() => void squatter.close());
  const ports = new Ports({ host: '127.0.0.1', ...range }, silent, () => 0);

  expect(await ports.take('auto')).toBe(FROM + 200);
});

test('a block that the agent before had is reserved by the next one once that has ended', async () => {
  let nowMs = 0;
  const name = '\0leasehold-ports-307';
  const former = net.createServer().listen(name);
  await once(former, 'listening');
  const ports = new Ports(
    { host: '127.0.0.1', from: FROM + 700, to: FROM + 799 },
    silent,
    () => nowMs,
  );
  await ports.take('auto');
  former.close();
  await once(former, 'close');

  nowMs = 60_000;
  await ports.take('auto');

  const other = net.createServer().listen(name);
  await expect(once(other, 'listening')).rejects.toMatchObject({ code: 'EADDRINUSE' });
});

describe('a port whose backend has ended', () => {
  const REST_MS = 60_000;

  test('is given to no other while somebody may have its address, as long as another one is free', async () => {
    let nowMs = 0;
    const range = { from: FROM + 400, to: FROM + 402 };
    const ports = new Ports({ host: '127.0.0.1', ...range }, silent, () => nowMs);
    const [first, second] = [await ports.take('auto'), await ports.take('auto')];
    ports.giveBack(first ?? 0, REST_MS);

    expect(await ports.take('auto')).toBe(FROM + 402);
    ports.giveBack(FROM + 402, 0);
    expect(await ports.take('auto')).toBe(FROM + 402);

    ports.giveBack(second ?? 0, REST_MS);
    nowMs = REST_MS;
    expect(await ports.take('auto')).toBe(first);
  });

  test('is given away when no other one is free, the one that rests longest first', async () => {
    let nowMs = 0;
    const range = { from: FROM + 500, to: FROM + 502 };
    const ports = new Ports({ host: '127.0.0.1', ...range }, silent, () => nowMs);
    for (let taken = 0; taken < 3; taken += 1) await ports.take('auto');
    for (const port of [FROM + 501, FROM + 500, FROM + 502]) {
      ports.giveBack(port, REST_MS);
      nowMs += 1;
    }

    const taken = [await ports.take('auto'), await ports.take('auto'), await ports.take('auto')];

    expect(taken).toEqual([FROM + 501, FROM + 500, FROM + 502]);
    expect(await ports.take('auto')).toBeUndefined();
  });

  test('is given at once to a program that has no other', async () => {
    const range = { from: FROM + 600, to: FROM + 602 };
    const ports = new Ports({ host: '127.0.0.1', ...range }, silent, () => 0);
    await ports.take(FROM + 601);
    ports.giveBack(FROM + 601, REST_MS);

    expect(await ports.take(FROM + 601)).toBe(FROM + 601);
  });

  test('before an agent that adopts the others was started is not the next one', async () => {
    const range = { from: FROM + 700, to: FROM + 799 };
    const ports = new Ports({ host: '127.0.0.1', ...range }, silent, () => 0);
    ports.adopt(FROM + 705);

    expect(await ports.take('auto')).toBe(FROM + 706);
  });
});

test('a host that is not of this machine is said to be the reason, and not its ports', async () => {
  const ports = new Ports({ host: '192.0.2.1', from: FROM, to: FROM + 9 }, silent, () => 0);

  await expect(ports.take('auto')).rejects.toThrow(/^no port can be had: .*EADDRNOTAVAIL/u);
  await expect(ports.take(FROM)).rejects.toThrow(StartFailed);
});
