import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, open, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import os from 'node:os';
import path from 'node:path';

/**
 * Below the ports that the kernel assigns to connections and to listeners on any port: such a port
 * may be taken again before it is used. Not from the ranges that drones use for backends, here and
 * by default: a backend that does not listen yet would be taken for ready.
 */
const PORTS = { from: 18_000, below: 21_000 } as const;
const COUNT = PORTS.below - PORTS.from;
/** So many lie between those of one process and those of the next: workers are started one after the other. */
const APART = 30;
/** A file for each port that was handed out, in a folder for each period: all processes that test share it. */
const HANDED_OUT = path.join(os.tmpdir(), `leasehold-test-ports-${String(process.getuid?.())}`);
/** A port is reserved until the period after this one ends: longer than a busy process needs until it listens. */
const PERIOD_MS = 120_000;

let nextPlace = process.pid * APART;

/**
 * A port of 127.0.0.1 that nobody listens on at this moment, and that the kernel assigns to nobody. A
 * port that was handed out may not be in use yet, so it is reserved for two minutes at least, among all processes.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < COUNT; tries += 1) {
    const port = PORTS.from + (nextPlace % COUNT);
    nextPlace += 1;
    if ((await reserve(port)) && (await isFree(port))) return port;
  }
  throw new Error(`no port from ${String(PORTS.from)} to ${String(PORTS.below)} is free`);
}

/** False if it was handed out in this period or the one before. To create a file is one step, also among processes. */
async function reserve(port: number): Promise<boolean> {
  const period = Math.floor(Date.now() / PERIOD_MS);
  const folderOf = (one: number): string => path.join(HANDED_OUT, String(one));
  if (existsSync(path.join(folderOf(period - 1), String(port)))) return false;
  const isFirst = (await mkdir(folderOf(period), { recursive: true })) !== undefined;
  if (isFirst) await rm(folderOf(period - 2), { recursive: true, force: true });
  try {
    await (await open(path.join(folderOf(period), String(port)), 'wx')).close();
    return true;
  } catch {
    return false;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = await listenAt(port);
  if (server === undefined) return false;
  server.close();
  await once(server, 'close');
  return true;
}

/** Undefined when somebody else listens there. */
async function listenAt(port: number): Promise<Server | undefined> {
  const server = createServer();
  const bound = once(server, 'listening').then(
    () => server,
    () => undefined,
  );
  server.listen(port, '127.0.0.1');
  return bound;
}

/** Below those of {@link freePort}, for the backends of drones. */
const RANGES = { from: 10_000, count: 40, size: 200 } as const;

/**
 * Ports of 127.0.0.1 for the backends of one drone. This process listens on the one before them, so that no
 * other process gets them while it lives.
 */
export async function reservePorts(): Promise<{
  readonly from: number;
  readonly to: number;
  readonly giveBack: () => void;
}> {
  const first = Math.floor(Math.random() * RANGES.count);
  for (let tries = 0; tries < RANGES.count; tries += 1) {
    const guarded = RANGES.from + ((first + tries) % RANGES.count) * RANGES.size;
    const guard = await listenAt(guarded);
    if (guard === undefined) continue;
    guard.unref();
    return { from: guarded + 1, to: guarded + RANGES.size - 1, giveBack: () => guard.close() };
  }
  throw new Error('every range of ports for backends is in use');
}
