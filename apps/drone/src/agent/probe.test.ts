import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { freePort } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  ownerOf,
  PortWatch,
  readListeners,
  untilReady,
  untilTaken,
  type PortOwner,
} from './probe.ts';

/** Listens, or has another process that it starts listen, and prints its port. */
const LISTEN = `
  const server = require('node:net').createServer(() => undefined);
  server.listen(Number(process.argv[1]), process.argv[2], () => console.log(server.address().port));`;
const HAVE_ANOTHER_LISTEN = `
  const { spawn } = require('node:child_process');
  const words = ['-e', process.argv[3], ...process.argv.slice(1, 3)];
  spawn(process.execPath, words, { stdio: 'inherit' });`;

/** More than are looked at in one turn. */
const MANY_FILES = 3_000;
const HAVE_MANY_FILES = `
  for (let n = 0; n < ${String(MANY_FILES)}; n += 1) require('node:fs').openSync('/dev/null');`;

async function listener(
  program: string,
  { port = 0, host = '127.0.0.1' } = {},
): Promise<{ child: ChildProcess; pid: number; port: number }> {
  const words = ['-e', program, String(port), host, LISTEN];
  // In a group of its own, which ends as one.
  const child = spawn(process.execPath, words, {
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => endGroup(child.pid ?? 0));
  const [printed] = (await once(child.stdout, 'data')) as [Buffer];
  return { child, pid: child.pid ?? 0, port: Number(printed.toString()) };
}

function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

function owner(pid: number, port: number, host = '127.0.0.1'): Promise<PortOwner> {
  return ownerOf({ pid, port, host, inside: null }, readListeners);
}

/** How often everything else had its turn while a port was judged. */
async function turnsOf(judging: Promise<PortOwner>): Promise<{ judged: PortOwner; turns: number }> {
  let turns = 0;
  const count = (): void => {
    turns += 1;
    counting = setImmediate(count);
  };
  let counting = setImmediate(count);
  const judged = await judging;
  clearImmediate(counting);
  return { judged, turns };
}

describe.each(['127.0.0.1', '0.0.0.0', '::1'])('a socket at %s', (host) => {
  test('belongs to the backend whose process has it, also one that the backend started, and to no other', async () => {
    const reachedAt = host.includes(':') ? '::1' : '127.0.0.1';
    const [own, started] = await Promise.all([
      listener(LISTEN, { host }),
      listener(HAVE_ANOTHER_LISTEN, { host }),
    ]);

    expect(await owner(own.pid, own.port, reachedAt)).toBe('own');
    expect(await owner(started.pid, started.port, reachedAt)).toBe('own');
    expect(await owner(own.pid, started.port, reachedAt)).toBe('stranger');
    expect(await owner(started.pid, own.port, reachedAt)).toBe('stranger');
  });
});

test('a host that is a name, or has a zone, is judged too', async () => {
  const [byName, withZone] = await Promise.all([
    listener(LISTEN),
    listener(LISTEN, { host: '::1' }),
  ]);

  expect(await owner(byName.pid, byName.port, 'localhost')).toBe('own');
  expect(await owner(withZone.pid, withZone.port, '::1%lo')).toBe('own');
  expect(await owner(byName.pid, withZone.port, '::1%lo')).toBe('stranger');
});

test('what listens at another address of the machine is not in the way', async () => {
  const elsewhere = await listener(LISTEN, { host: '127.0.0.2' });

  expect(await owner(process.pid, elsewhere.port, '127.0.0.1')).toBe('nobody');
  expect(await owner(elsewhere.pid, elsewhere.port, '127.0.0.2')).toBe('own');
});

test('what listens for version 6 alone is not in the way of a backend that listens for version 4', async () => {
  const own = await listener(LISTEN, { host: '0.0.0.0' });
  const other = net.createServer().listen({ port: own.port, host: '::', ipv6Only: true });
  await once(other, 'listening');
  onTestFinished(() => void other.close());

  expect(await owner(own.pid, own.port, '127.0.0.1')).toBe('own');
  expect(await owner(own.pid, own.port, '::1')).toBe('stranger');
});

test('a socket that is closed between the looks at sockets and at processes is no stranger', async () => {
  const { pid, port } = await listener(LISTEN);
  let looks = 0;
  const listeners = (): ReturnType<typeof readListeners> => {
    const now = readListeners(true);
    looks += 1;
    const [own] = now?.get(port) ?? [];
    // As if a worker had ended in between.
    return looks > 1 || own === undefined ? now : new Map([[port, [own, { ...own, inode: '1' }]]]);
  };

  expect(await ownerOf({ pid, port, host: '127.0.0.1', inside: null }, listeners)).toBe('own');
});

describe('a backend with very many open files', () => {
  test('is judged in many turns: the keys of other backends do not wait for it', async () => {
    const { pid, port } = await listener(`${HAVE_MANY_FILES}${LISTEN}`);

    const { judged, turns } = await turnsOf(owner(pid, port));

    expect(judged).toBe('own');
    expect(turns).toBeGreaterThan(1);
  });

  test('is not looked at further once its sockets are found', async () => {
    const afterwards = `server.prependListener('listening', () => {${HAVE_MANY_FILES}});`;
    const { pid, port } = await listener(`${LISTEN}${afterwards}`);

    expect(await turnsOf(owner(pid, port))).toEqual({ judged: 'own', turns: 0 });
  });

  test('is neither its owner nor a stranger where it has more than may be looked at', async () => {
    const [{ pid }, { port }] = await Promise.all([
      listener(`${HAVE_MANY_FILES}${LISTEN}`),
      listener(LISTEN),
    ]);
    const backend = { pid, port, host: '127.0.0.1', inside: null };

    expect(await ownerOf(backend, readListeners, MANY_FILES / 2)).toBe('unknown');
    expect(await ownerOf(backend, readListeners)).toBe('stranger');
  });
});

describe.each(['tcp', 'none'] as const)('a backend with the readiness %s', (type) => {
  const readiness = { type, timeoutMs: 1_000, intervalMs: 5 };

  test('is not ready when a stranger answers on its port', async () => {
    const squatter = net.createServer().listen(0, '127.0.0.1');
    await once(squatter, 'listening');
    onTestFinished(() => void squatter.close());
    const { port } = squatter.address() as net.AddressInfo;
    const victim = await listener(LISTEN);

    const end = await untilReady({
      readiness,
      port: () => ({ host: '127.0.0.1', port, pid: victim.pid, inside: null }),
      isWanted: () => true,
      listeners: readListeners,
    });

    expect(end).toBe('stranger');
  });

  test('is ready when it listens itself', async () => {
    const { pid, port } = await listener(LISTEN);
    const probed = { readiness, isWanted: () => true, listeners: readListeners };

    const end = await untilReady({
      ...probed,
      port: () => ({ host: '127.0.0.1', port, pid, inside: null }),
    });

    expect(end).toBe('ready');
  });
});

test('a backend that listens soon after its start is ready long before the interval has passed', async () => {
  const port = await freePort();
  let pid = 0;
  const ready = untilReady({
    readiness: { type: 'tcp', timeoutMs: 3_600_000, intervalMs: 3_600_000 },
    port: () => ({ host: '127.0.0.1', port, pid, inside: null }),
    isWanted: () => true,
    listeners: readListeners,
  });

  ({ pid } = await listener(LISTEN, { port }));

  expect(await ready).toBe('ready');
});

test('a backend that was ready is noticed when a stranger has taken its port', async () => {
  // Nobody else is given it between the two that listen there.
  const own = await listener(LISTEN, { port: await freePort() });
  const port = (): { host: string; port: number; pid: number; inside: null } => ({
    host: '127.0.0.1',
    port: own.port,
    pid: own.pid,
    inside: null,
  });
  const watch = new PortWatch(port, readListeners);
  expect(await watch.look()).toBe('own');
  own.child.kill('SIGKILL');
  await once(own.child, 'exit');
  await listener(LISTEN, { port: own.port });

  const end = await untilTaken({
    port,
    isWanted: () => true,
    listeners: readListeners,
    readiness: { type: 'tcp', timeoutMs: 1_000, intervalMs: 5 },
  });

  expect(end).toBe('stranger');
});
