/**
 * Takes leases under load, a key of its own for each attempt, and gives each back after a moment. Some
 * attempts give up while they are under way. Takes no more when the test asks for it, and stays for what
 * its client still has to put in order.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { createLeasehold } from '@leasehold/client';
import { codeOf, endAsked, grantOf, ready, say, settings } from './program.ts';

export interface TakerSettings {
  readonly url: string;
  readonly token: string;
  readonly namespace: string;
  readonly name: string;
  readonly ttlMs: number;
  /** How many attempts are under way at a time. */
  readonly width: number;
}

const GIVE_UP_EVERY = 4;
const GIVE_UP_MS_MAX = 300;
/** Different for each, so that not all attempts of a batch wait for the same thing. */
const HOLD_MS_MAX = 20;
/** Attempts that are ready to wait are sent alone, the others in batches. */
const WAIT_EVERY = 3;
const WAIT_MS = 5_000;

const { url, token, namespace, name, ttlMs, width } = settings() as TakerSettings;
const leasehold = createLeasehold({ url, token, clientName: name });
const taking = leasehold.defineLease([namespace], { ttlMs });
let isEnding = false;
let attemptsCount = 0;
const ended = endAsked().then(() => {
  isEnding = true;
});

async function attempt(): Promise<void> {
  attemptsCount += 1;
  const count = attemptsCount;
  const key = `${name}-${String(count)}`;
  const givesUp = count % GIVE_UP_EVERY === 0;
  const signal = givesUp ? AbortSignal.timeout((count * 37) % GIVE_UP_MS_MAX) : undefined;
  const waitMs = count % WAIT_EVERY === 0 ? WAIT_MS : 0;
  try {
    const lease = await taking.acquire(key, { waitMs, signal });
    say({ kind: 'held', ...grantOf(lease) });
    await pause((count * 7) % HOLD_MS_MAX);
    say({ kind: 'letting_go', ...grantOf(lease) });
    say({ kind: 'released', ...grantOf(lease), report: await lease.release() });
  } catch (error) {
    say({ kind: 'not_held', key, code: codeOf(error) });
  }
}

ready();
await Promise.all(
  Array.from({ length: width }, async () => {
    while (!isEnding) await attempt();
  }),
);
await ended;
say({ kind: 'idle' });
