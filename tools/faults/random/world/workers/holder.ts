/** A service that holds leases with the client library, and watches its signals. */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { createLeasehold, type Lease, type LeaseDefinition } from '@leasehold/client';
import { clockOf } from '../../../leases/stage/program.ts';
import { machineMs } from '../../../stage/machine-time.ts';
import type { WorkerParts } from './parts.ts';
import { leaseResource, NAMESPACE } from './settings.ts';

const LANES = ['h0', 'h1', 'h2'] as const;
const TTL_MS = 1_500;
const WAIT_MS = 5_000;
const HOLD_MS_MIN = 100;
const HOLD_MS_MAX = 2_000;
const SAMPLE_MS = 10;
const AFTER_FAILURE_MS = 100;

export async function runHolder(parts: WorkerParts): Promise<void> {
  const { settings, signal } = parts;
  const clock = clockOf(settings.clock);
  const leasehold = createLeasehold({
    url: settings.urls,
    token: settings.token,
    clientName: settings.name,
    clock,
  });
  const definition = leasehold.defineLease([NAMESPACE], { ttlMs: TTL_MS, waitMs: WAIT_MS });
  await Promise.all(
    LANES.map(async (key) => {
      while (!signal.aborted) {
        await holdOnce(definition, key, { ...parts, nowMs: () => clock.nowMs() });
      }
    }),
  );
  await leasehold.close();
}

async function holdOnce(
  definition: LeaseDefinition,
  key: string,
  { diary, random, settings, signal, nowMs }: WorkerParts & { readonly nowMs: () => number },
): Promise<void> {
  let lease: Lease;
  try {
    lease = await definition.acquire(key, { signal, holder: randomUUID() });
  } catch {
    await pause(AFTER_FAILURE_MS);
    return;
  }
  const { leaseId, fencingToken: token } = lease;
  const grant = { resource: leaseResource(key), leaseId, token };
  diary.write({ line: 'held', grant, atMs: machineMs() });
  const watch = watchOf(lease, nowMs, settings.clock.rate);
  const holdMs = random.whole(HOLD_MS_MIN, HOLD_MS_MAX);
  const loss = await Promise.race([watch.lost, pause(holdMs, undefined)]);
  if (loss !== undefined) {
    diary.write({ line: 'over', leaseId, end: 'lost', ...loss });
    return;
  }
  watch.stop();
  diary.write({ line: 'over', leaseId, end: 'released', lateMs: 0, stallMs: 0, atMs: machineMs() });
  await lease.release();
}

interface Loss {
  readonly lateMs: number;
  readonly stallMs: number;
  readonly atMs: number;
}

/**
 * Watches for how long the lease allows work, and whether its signal comes in time: by the holder's clock,
 * which runs at a rate of its own.
 */
function watchOf(
  lease: Lease,
  nowMs: () => number,
  rate = 1,
): { lost: Promise<Loss>; stop: () => void } {
  let mayActUntilMs = -Infinity;
  let lookedAtMs = nowMs();
  const look = (): void => {
    const remainingMs = lease.remainingMs();
    // A process that was stopped may look before its signal has aborted.
    if (remainingMs <= 0) return;
    lookedAtMs = nowMs();
    mayActUntilMs = Math.max(mayActUntilMs, lookedAtMs + remainingMs);
  };
  look();
  const looking = setInterval(look, SAMPLE_MS);
  const stop = (): void => {
    clearInterval(looking);
  };
  const lost = new Promise<Loss>((resolve) => {
    const tell = (): void => {
      stop();
      const lateMs = (nowMs() - mayActUntilMs) / rate;
      const stallMs = (nowMs() - lookedAtMs) / rate;
      resolve({ lateMs, stallMs, atMs: machineMs() });
    };
    if (lease.signal.aborted) tell();
    else lease.signal.addEventListener('abort', tell, { once: true });
  });
  return { lost, stop };
}
