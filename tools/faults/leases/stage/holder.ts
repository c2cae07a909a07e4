/**
 * Takes leases, each with a client of its own, and reports what becomes of them. Holds each for `holdMs`,
 * or until it is lost or the test asks for the end; takes it again when it is lost and `takesAgain`.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { createLeasehold, type Lease, type Leasehold } from '@leasehold/client';
import { createBootClock } from '@leasehold/service-kit/boot-clock';
import { codeOf, endAsked, grantOf, ready, say, settings } from './program.ts';

/** One lease that a process is to take. */
export interface HolderTask {
  readonly url: string;
  readonly key: string;
  readonly ttlMs: number;
  readonly waitMs?: number | undefined;
  readonly holdMs?: number | undefined;
  readonly takesAgain?: boolean | undefined;
}

export interface HolderSettings {
  readonly token: string;
  readonly namespace: string;
  readonly tasks: readonly HolderTask[];
}

const SAMPLE_MS = 10;
/** A refusal comes at once. */
const AFTER_FAILURE_MS = 50;

const { token, namespace, tasks } = settings() as HolderSettings;
const clock = createBootClock();
const ending = new AbortController();

async function carryOut(task: HolderTask): Promise<void> {
  await using leasehold = createLeasehold({ url: task.url, token, clock, clientName: 'holder' });
  do await takeOnce(leasehold, task);
  while (task.takesAgain === true && !ending.signal.aborted);
}

async function takeOnce(
  leasehold: Leasehold,
  { key, ttlMs, waitMs = 0, holdMs }: HolderTask,
): Promise<void> {
  let lease: Lease;
  try {
    const definition = leasehold.defineLease([namespace], { ttlMs });
    lease = await definition.acquire(key, { waitMs, signal: ending.signal });
  } catch (error) {
    if (!ending.signal.aborted) say({ kind: 'not_held', key, code: codeOf(error) });
    await pause(AFTER_FAILURE_MS);
    return;
  }
  const grant = grantOf(lease);
  say({ kind: 'held', ...grant });
  const lost = lossOf(lease);
  const isLost = await Promise.race([
    lost.then(() => true),
    ended.then(() => false),
    ...(holdMs === undefined ? [] : [pause(holdMs).then(() => false)]),
  ]);
  if (isLost) return;
  say({ kind: 'letting_go', ...grant });
  say({ kind: 'released', ...grant, report: await lease.release() });
}

/** Reports the loss when the signal aborts, then is fulfilled. Watches how long the lease allows work. */
function lossOf(lease: Lease): Promise<void> {
  let mayActUntilMs = -Infinity;
  let lookedAtMs = clock.nowMs();
  const look = (): void => {
    lookedAtMs = clock.nowMs();
    mayActUntilMs = Math.max(mayActUntilMs, lookedAtMs + lease.remainingMs());
  };
  look();
  const looking = setInterval(look, SAMPLE_MS);
  return new Promise((resolve) => {
    lease.signal.addEventListener('abort', () => {
      clearInterval(looking);
      const nowMs = clock.nowMs();
      const { reason } = lease.signal.reason as { reason?: string };
      say({
        kind: 'lost',
        ...grantOf(lease),
        reason: reason ?? String(lease.signal.reason),
        lateMs: nowMs - mayActUntilMs,
        stallMs: nowMs - lookedAtMs,
      });
      resolve();
    });
  });
}

const ended = endAsked().then(() => {
  ending.abort();
});
const all = Promise.all(tasks.map(carryOut));
ready();
await all;
await ended;
process.exit(0);
