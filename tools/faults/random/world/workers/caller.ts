/**
 * A service that speaks the protocol by itself: it holds leases for moments, renews, repeats, races, gives
 * up, lets grants expire, and uses keys.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { WorkerParts } from './parts.ts';
import { KEYS } from './settings.ts';
import { Wire, type Attempt, type Grant } from './wire.ts';

/** How many attempts are under way at a time. */
const WIDTH = 4;
const SHARED = ['a', 'b', 'c', 'd'] as const;
const OWN_COUNT = 40;
const TTLS_MS = [1_000, 1_500, 2_000] as const;
const WAITS_MS = [0, 0, 500, 2_000] as const;
const HOLD_MS_MAX = 60;
const BETWEEN_MS_MAX = 120;
const CONNECT_EVERY_MS = 700;

export async function runCaller(parts: WorkerParts): Promise<void> {
  const wire = new Wire(parts);
  const lanes = Array.from({ length: WIDTH }, async () => {
    while (!parts.signal.aborted) {
      await attemptOnce(wire, parts);
      await pause(parts.random.whole(0, BETWEEN_MS_MAX));
    }
  });
  await Promise.all([...lanes, connectAll(wire, parts)]);
  await wire.close();
}

async function connectAll(wire: Wire, { random, signal }: WorkerParts): Promise<void> {
  while (!signal.aborted) {
    await wire.connect(random.pick(KEYS));
    await pause(CONNECT_EVERY_MS);
  }
}

async function attemptOnce(wire: Wire, { random, settings }: WorkerParts): Promise<void> {
  const isShared = random.chance(0.6);
  const own = `${settings.name}-${String(random.whole(1, OWN_COUNT))}`;
  const attempt: Attempt = {
    key: isShared ? random.pick(SHARED) : own,
    holder: randomUUID(),
    idempotencyKey: randomUUID(),
    ttlMs: random.pick(TTLS_MS),
    waitMs: random.pick(WAITS_MS),
  };
  const first = wire.acquire(attempt);
  if (random.chance(0.1)) {
    await pause(random.whole(0, 300));
    await Promise.all([first, wire.cancel(attempt)]);
    return;
  }
  const repeated = random.chance(0.1) ? wire.acquire(attempt) : undefined;
  const answer = await first;
  await repeated;
  if (answer.outcome === 'granted') {
    await use(wire, { key: attempt.key, leaseId: answer.leaseId, token: answer.token }, random);
  } else if (answer.outcome === 'unknown') {
    await wire.cancel(attempt);
  }
  // A late duplicate, after the release or the refusal.
  if (random.chance(0.05)) await wire.acquire(attempt);
}

async function use(wire: Wire, grant: Grant, random: WorkerParts['random']): Promise<void> {
  await pause(random.whole(0, HOLD_MS_MAX));
  if (random.chance(0.4)) await wire.renew(grant);
  if (random.chance(0.1)) await Promise.all([wire.renew(grant), wire.renew(grant)]);
  if (random.chance(0.05)) {
    const wrong = String(BigInt(grant.token) + BigInt(random.pick([-1, 1])));
    await wire.renew({ ...grant, token: wrong });
  }
  // It runs out.
  if (random.chance(0.04)) return;
  if (random.chance(0.1)) await Promise.all([wire.release(grant), wire.renew(grant)]);
  else await wire.release(grant);
  if (random.chance(0.05)) await wire.release(grant);
  if (random.chance(0.05)) await wire.renew(grant);
}
