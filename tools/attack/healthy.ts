/** Callers, a holder and a backend that do nothing wrong, and must not notice an attack. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createControllerClient, createLeasehold, type ControllerApi } from '@leasehold/client';

/** What calls took, in milliseconds. */
export interface Latencies {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  /** The codes of calls that failed. */
  readonly failed: readonly string[];
}

export interface Healthy extends AsyncDisposable {
  /** Acquires and releases for this long. */
  measure(forMs: number): Promise<Latencies>;
  /** What was lost since the previous call, in words. */
  losses(): Promise<string[]>;
}

const CALLERS = 4;
const PAUSE_MS = 20;
const HELD_TTL_MS = 6_000;
const CALLER_TTL_MS = 10_000;

export async function startHealthy(of: {
  readonly url: string;
  readonly token: string;
  readonly program: string;
}): Promise<Healthy> {
  const { url, token, program } = of;
  const leasehold = createLeasehold({ url, token, clientName: 'healthy' });
  const held = leasehold.defineLease(['healthy'], { ttlMs: HELD_TTL_MS });
  let lease = await held.acquire('held');
  const client = createControllerClient({ url, token, transport: 'ws' });
  const connect = () =>
    client.api.keys.connect.mutate({
      key: { name: 'healthy' },
      spawn: { program },
      waitFor: 'ready',
    });
  let { backendId } = await connect();
  return {
    async measure(forMs) {
      const untilMs = performance.now() + forMs;
      const took: number[] = [];
      const failed: string[] = [];
      await Promise.all(
        Array.from({ length: CALLERS }, async (_, nth) => {
          for (let round = 0; performance.now() < untilMs; round += 1) {
            const startedMs = performance.now();
            await useOnce(client.api, `caller-${String(nth)}`).then(
              () => took.push(performance.now() - startedMs),
              (error: unknown) => failed.push(String(error)),
            );
            await sleep(PAUSE_MS);
          }
        }),
      );
      return latenciesOf(took, failed);
    },
    async losses() {
      const lost: string[] = [];
      if (lease.signal.aborted) {
        lost.push(`a lease was lost: ${String(lease.signal.reason)}`);
        lease = await held.acquire('held', { waitMs: HELD_TTL_MS });
      }
      const now = await connect();
      if (now.backendId !== backendId) lost.push('a backend was lost');
      backendId = now.backendId;
      return lost;
    },
    async [Symbol.asyncDispose]() {
      await lease.release();
      await leasehold[Symbol.asyncDispose]();
      await client.close();
    },
  };
}

/** One round of a service: a lease is taken, and given back. */
async function useOnce(api: ControllerApi, key: string): Promise<void> {
  const answer = await api.leases.acquire.mutate({
    namespace: ['healthy'],
    key,
    ttlMs: CALLER_TTL_MS,
    waitMs: 0,
    holder: key,
    localTimeMs: Math.round(performance.now()),
  });
  if (answer.outcome !== 'granted') throw new Error(answer.outcome);
  const { leaseId, fencingToken } = answer.lease;
  await api.leases.release.mutate({ leaseId, fencingToken });
}

export function latenciesOf(took: readonly number[], failed: readonly string[]): Latencies {
  const sorted = [...took].sort((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  return { count: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1), failed };
}
