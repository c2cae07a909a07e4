/**
 * A service that shares: it holds leases by permits, shared and alone, several at once, and environments that newer
 * requests supersede or that are frozen.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  createControllerClient,
  createLeasehold,
  type Lease,
  type LeaseDefinition,
} from '@leasehold/client';
import { clockOf } from '../../../leases/stage/program.ts';
import { machineMs } from '../../../stage/machine-time.ts';
import type { WorkerParts } from './parts.ts';
import {
  holderOfAll,
  NAMESPACE,
  PERMITS,
  PERMITS_NAMESPACE,
  SHARED_NAMESPACE,
  TOGETHER_NAMESPACE,
} from './settings.ts';

const TTL_MS = 1_500;
const WAIT_MS = 4_000;
const HOLD_MS_MAX = 1_200;
const ALL_HOLD_MS_MAX = 300;
const AFTER_FAILURE_MS = 100;
const BETWEEN_MS_MAX = 1_500;
const RENEW_EVERY_MS = 300;
const ANSWER_MS_MAX = 6_000;
const KEYS = ['a', 'b', 'c'] as const;

export async function runSharer(parts: WorkerParts): Promise<void> {
  const { settings, signal } = parts;
  const { urls: url, token, name: clientName } = settings;
  const clock = clockOf(settings.clock);
  const leasehold = createLeasehold({ url, token, clientName, clock });
  const options = { ttlMs: TTL_MS, waitMs: WAIT_MS };
  const permits = leasehold.defineLease([...PERMITS_NAMESPACE.split('.')], {
    ...options,
    permits: PERMITS,
  });
  const shared = leasehold.defineLease([...SHARED_NAMESPACE.split('.')], options);
  const deploys = createControllerClient({
    ...{ url, token, transport: 'ws', callTimeoutMs: ANSWER_MS_MAX },
  });
  const lane = async (once: () => Promise<void>): Promise<void> => {
    while (!signal.aborted) await once().catch(() => pause(AFTER_FAILURE_MS));
  };
  await Promise.all([
    lane(() => hold(permits, 'permit', parts)),
    lane(() => hold(permits, 'permit', parts)),
    lane(() => hold(shared, 'shared', parts)),
    lane(() => hold(shared, parts.random.chance(0.4) ? undefined : 'shared', parts)),
    lane(() => holdAll(leasehold, parts)),
    lane(() => deploy(deploys.api, 'deploy', parts)),
    lane(() => deploy(deploys.api, 'frozen', parts)),
  ]);
  await deploys.close();
  await leasehold.close();
}

/** Holds one of many, and notes for how long it believed to. */
async function hold(
  definition: LeaseDefinition,
  mode: 'permit' | 'shared' | undefined,
  { diary, random, signal, settings }: WorkerParts,
): Promise<void> {
  const { namespace } = definition;
  const key = random.pick(namespace.at(-1) === 'shared' ? KEYS.slice(0, 1) : KEYS);
  const lease = await definition.acquire(key, { signal, mode, holder: randomUUID() });
  const { leaseId, fencingToken: token } = lease;
  const resource = `lease ${namespace.join('.')}/${key}`;
  diary.write({ line: 'held', grant: { resource, leaseId, token, mode }, atMs: machineMs() });
  const believedUntil = await believe(lease, random.whole(0, HOLD_MS_MAX), settings.clock.rate);
  const over = { end: 'released', lateMs: 0, stallMs: 0, atMs: believedUntil } as const;
  diary.write({ line: 'over', leaseId, ...over });
  await lease.release();
}

/** Works until it is enough, or the lease allows no more. @returns the last moment at which it did. */
async function believe(lease: Lease, forMs: number, rate = 1): Promise<number> {
  const endsAtMs = machineMs() + forMs;
  for (;;) {
    const nowMs = machineMs();
    const leftMs = lease.remainingMs() / rate;
    if (leftMs <= 0 || nowMs >= endsAtMs) return nowMs;
    // It looks again before that: a process that is stopped meanwhile has not worked.
    await pause(Math.min(10, leftMs));
    if (lease.remainingMs() <= 0) return Math.min(machineMs(), nowMs);
  }
}

async function holdAll(
  leasehold: ReturnType<typeof createLeasehold>,
  { random, signal }: WorkerParts,
): Promise<void> {
  const keys = random.shuffled(KEYS).slice(0, random.whole(2, KEYS.length));
  const names = keys.map((key) => ({ namespace: TOGETHER_NAMESPACE.split('.'), key }));
  const holder = holderOfAll(randomUUID(), names.length);
  await using leases = await leasehold.acquireAll(names, {
    ...{ holder, signal, ttlMs: TTL_MS, waitMs: WAIT_MS },
  });
  await pause(random.whole(0, ALL_HOLD_MS_MAX), undefined, { signal: leases.signal });
}

type Api = ReturnType<typeof createControllerClient>['api'];

/** Asks with one key only: a request that lost its place would be a newer one, and supersede nothing. */
async function deploy(
  { environments }: Api,
  name: 'deploy' | 'frozen',
  { random, signal }: WorkerParts,
): Promise<void> {
  await pause(random.whole(0, BETWEEN_MS_MAX));
  const wanted = {
    ...{ environment: [NAMESPACE, name], action: 'deploy', holder: randomUUID() },
    ...{ idempotencyKey: randomUUID(), durationMs: TTL_MS, localTimeMs: Math.round(machineMs()) },
    ...(name === 'deploy' ? { supersede: 'running' as const } : {}),
  };
  const answer = await environments.acquire.mutate({ ...wanted, waitMs: WAIT_MS });
  if (answer.outcome !== 'granted') return;
  const { leaseId, fencingToken } = answer.lease;
  for (let left = random.whole(0, 6); left > 0 && !signal.aborted; left -= 1) {
    await pause(RENEW_EVERY_MS);
    const renewals = [{ leaseId, fencingToken }];
    const localTimeMs = Math.round(machineMs());
    const { results } = await environments.heartbeat.mutate({ localTimeMs, renewals });
    if (results[0]?.outcome !== 'renewed') break;
  }
  await environments.release.mutate({ leaseId, fencingToken, result: 'ok' });
}
