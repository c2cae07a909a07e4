/**
 * Holds one lease and does guarded acts all the time, each right after `assertHeld()`, from every
 * place where the runtime calls back: so that some of them are what runs first when a process that was
 * stopped goes on. With `stallMs`, it blocks its own event loop once, and acts in the same turn.
 */
import { createServer } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { createLeasehold } from '@leasehold/client';
import { machineMs } from '../../stage/machine-time.ts';
import { codeOf, endAsked, grantOf, ready, say, settings } from './program.ts';

export interface GuardedSettings {
  readonly url: string;
  readonly token: string;
  readonly key: string;
  readonly ttlMs: number;
  readonly stallMs?: number | undefined;
}

const ACT_EVERY_MS = 5;

const { url, token, key, ttlMs, stallMs } = settings() as GuardedSettings;
const ended = endAsked();
const leasehold = createLeasehold({ url, token, clientName: 'guarded' });
const lease = await leasehold.defineLease(['guarded'], { ttlMs }).acquire(key);
say({ kind: 'held', ...grantOf(lease) });

const prevented = new Set<string>();

function act(by: string): void {
  // A process may be stopped between the check and the act, which only a fencing token detects.
  const askedAtMs = machineMs();
  try {
    lease.assertHeld();
  } catch (error) {
    if (!prevented.has(by)) say({ kind: 'prevented', ...grantOf(lease), by, code: codeOf(error) });
    prevented.add(by);
    return;
  }
  say({ kind: 'act', ...grantOf(lease), by, askedAtMs });
}

setInterval(act, ACT_EVERY_MS, 'timer');
// Requests over the network: what was sent meanwhile is read before timers have their turn.
const server = createServer((socket) => {
  socket.on('error', () => undefined);
  socket.on('data', () => {
    act('request');
  });
});
server.listen(0, '127.0.0.1', () => {
  ready({ port: (server.address() as { port: number }).port });
});

if (stallMs !== undefined) {
  setTimeout(() => {
    act('before the stall');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stallMs);
    act('after the stall');
    queueMicrotask(() => {
      act('microtask after the stall');
    });
  }, ttlMs);
}

const ending = new AbortController();
void ended.then(() => {
  ending.abort();
});
// What a loop that never waits long would do; slowed down so that it leaves room for others.
for (let count = 0; !ending.signal.aborted; count += 1) {
  if (count % 50 === 0) act('loop');
  await turn();
}
process.exit(0);
