import { randomUUID } from 'node:crypto';
import { createControllerClient } from '@leasehold/client';
import { startControllers, type Controllers } from '../controllers.ts';
import { startChild } from '../rig/child.ts';
import type { Figure } from '../rig/figures.ts';
import type { LoadReport } from '../rig/load-client.ts';
import { atMost, count, milliseconds, perSecond, share } from '../rig/quantities.ts';
import { insertTokenOf, type BenchDatabase, type Rig } from '../rig/rig.ts';
import { quantile, rateOf } from '../rig/rounds.ts';
import type { Holding } from '../rig/soak-client.ts';

/** As many as a client sends at once when it has more to send. */
const ITEMS_OF_A_CALL = 200;
const CALLS_AT_ONCE = 8;
const CONNECTION_COUNT = 40;
const TOKEN_COUNT = 8;
const TIMES_CAPACITY = 10;
const HELD_COUNT = 2_000;
const HELD_TTL_MS = 10_000;
const REFUSED_MS_MAX = 100;

/** Far more calls than can be carried out: how soon the rest is refused, and what becomes of leases. */
export async function measureOverload(rig: Rig): Promise<Figure[]> {
  const database = await rig.database('bench_overload');
  const controllers = await startControllers(rig, database, 1);
  const capacity = await capacityOf(rig, controllers);
  const holder = await startChild<Holding>('soak-client', [
    controllers.urls[0] ?? '',
    controllers.token,
    'holder',
    String(HELD_COUNT),
    String(HELD_TTL_MS),
  ]);
  rig.onClose(() => holder.stop());
  let holding = holder.ready;
  holder.onMessage((message) => (holding = message));
  const report = await load(database, {
    url: controllers.urls[0] ?? '',
    callsPerSecond: (capacity * TIMES_CAPACITY) / ITEMS_OF_A_CALL,
    durationMs: rig.isQuick ? 2_000 : 15_000,
  });
  const { sentCount, grantedCount, refusedCount, otherCounts } = report;
  const unanswered = sentCount - grantedCount - refusedCount - sum(Object.values(otherCounts));
  const others = Object.entries(otherCounts).map(([code, many]) => `${code}: ${String(many)}`);
  return [
    { what: 'overload: acquires that one controller can carry out', result: perSecond(capacity) },
    {
      what: `overload: share of ${String(sentCount)} acquires at ten times that rate that was granted`,
      result: share(grantedCount / sentCount),
    },
    {
      what: 'overload: from a call to its retryable refusal, p50',
      result: milliseconds(quantile(report.refusedMs, 0.5)),
    },
    {
      what: 'overload: from a call to its retryable refusal, p99',
      result: milliseconds(quantile(report.refusedMs, 0.99)),
      required: atMost(REFUSED_MS_MAX),
    },
    {
      what: `overload: answered in another way (${others.join(', ') || 'none'}), or not at all`,
      result: count(sum(Object.values(otherCounts)) + unanswered),
      required: atMost(0),
    },
    {
      what: `overload: lost of ${String(HELD_COUNT)} leases of 10 s meanwhile`,
      result: count(holding.lostCount),
      required: atMost(0),
    },
  ];
}

/** Acquires of fresh keys in large calls, as many at once as keep the controller busy. */
async function capacityOf(rig: Rig, { urls, token }: Controllers): Promise<number> {
  const client = createControllerClient({ url: urls[0] ?? '', token, transport: 'ws' });
  rig.onClose(() => client.close());
  const calls = await rateOf(CALLS_AT_ONCE, rig.isQuick ? 500 : 4_000, () =>
    client.api.leases.acquireMany.mutate({
      localTimeMs: Math.round(performance.now()),
      items: Array.from({ length: ITEMS_OF_A_CALL }, () => ({
        namespace: ['capacity'],
        key: randomUUID(),
        ttlMs: 2_000,
        holder: 'load',
      })),
    }),
  );
  return calls * ITEMS_OF_A_CALL;
}

async function load(
  database: BenchDatabase,
  of: { readonly url: string; readonly callsPerSecond: number; readonly durationMs: number },
): Promise<LoadReport> {
  const tokens = await Promise.all(
    Array.from({ length: TOKEN_COUNT }, () =>
      insertTokenOf(database, { role: 'client', droneId: null }),
    ),
  );
  // Its only message is the report.
  const child = await startChild<LoadReport>('load-client', [
    of.url,
    tokens.join(','),
    String(of.callsPerSecond),
    String(ITEMS_OF_A_CALL),
    String(CONNECTION_COUNT),
    String(of.durationMs),
  ]);
  await child.stop();
  return child.ready;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
