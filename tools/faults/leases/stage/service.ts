/**
 * A service that works for its caller, reports that all the time, and calls the next one: for as long
 * as the lease of the first caller lasts. With `lease` it is the first caller itself.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { createLeasehold, currentSignal, LeaseLost } from '@leasehold/client';
import { endAsked, grantOf, ready, say, settings } from './program.ts';

export interface ServiceSettings {
  readonly service: string;
  readonly url: string;
  readonly token: string;
  /** The URL of the service that it calls. */
  readonly next?: string | undefined;
  readonly lease?: { readonly caseName: string; readonly ttlMs: number } | undefined;
}

const WORK_MS = 10;

const { service, url, token, next, lease: begins } = settings() as ServiceSettings;
const leasehold = createLeasehold({ url, token, clientName: service });
const ended = endAsked();

/** Works, and lets the next service work, until its signal aborts. */
async function carryOut(caseName: string): Promise<void> {
  const signal = currentSignal();
  if (signal === undefined) throw new Error('this work belongs to nobody');
  const calling = callNext(caseName, signal);
  while (!signal.aborted) {
    say({ kind: 'work', service, caseName });
    await pause(WORK_MS);
  }
  await calling;
}

/** One call after the other: each is told what is left of the lease when it begins. */
async function callNext(caseName: string, signal: AbortSignal): Promise<void> {
  if (next === undefined) return;
  while (!signal.aborted) {
    try {
      await leasehold.fetch(`${next}/${caseName}`, { method: 'POST' });
    } catch (error) {
      // The time may be over a moment before the signal aborts.
      if (error instanceof LeaseLost) return;
      await pause(WORK_MS);
    }
  }
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const hungUp = new AbortController();
  response.once('close', () => {
    hungUp.abort();
  });
  using received = leasehold.receiveLease(request.headers, hungUp.signal);
  await received.run(() => carryOut(request.url?.slice(1) ?? ''));
  response.end();
}

if (begins === undefined) {
  const server = createServer((request, response) => void serve(request, response));
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo;
    ready({ url: `http://127.0.0.1:${String(port)}` });
  });
} else {
  const { caseName, ttlMs } = begins;
  const lease = await leasehold.defineLease(['propagation'], { ttlMs }).acquire(caseName);
  lease.signal.addEventListener('abort', () => {
    const { reason } = lease.signal.reason as { reason: string };
    say({ kind: 'lost', ...grantOf(lease), reason, lateMs: 0, stallMs: 0 });
  });
  say({ kind: 'held', ...grantOf(lease) });
  ready();
  await lease.run(() => carryOut(caseName));
}
await ended;
process.exit(0);
