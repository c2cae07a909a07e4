import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitUntil, type TestProcess } from '@leasehold/testing';
import type { HolderSettings, HolderTask } from './stage/holder.ts';
import { FaultStage } from '../stage/stage.ts';
import { allWords } from './stage/words.ts';
import { machineMs } from '../stage/machine-time.ts';

const TTL_MS = 2_000;
const KEYS = Array.from({ length: 8 }, (_, index) => String(index));
/** How long beyond the TTL the next grant may take (I10). */
const REGRANT_MS_MAX = 1_000;
/** How much too early a grant may seem, because reading its expiry takes time. */
const READING_MS_MAX = 20;

let lease: FaultStage;
beforeAll(async () => {
  lease = await FaultStage.open();
});
afterAll(({}, file) => lease.close(file));

function startHolder(
  namespace: string,
  label: string,
  task: Partial<HolderTask> = {},
): Promise<TestProcess> {
  const { url } = lease.controller();
  const tasks = KEYS.map((key) => ({ url, key, ttlMs: TTL_MS, waitMs: 30_000, ...task }));
  const settings = { token: lease.token, namespace, tasks } satisfies HolderSettings;
  return lease.start('holder', settings, `${namespace}-${label}`);
}

async function untilInLine(namespace: string, count: number): Promise<void> {
  await waitUntil(
    async () => {
      const [row] = await lease.query<{ count: number }>(
        'select count(*)::int as count from lease_waiter where namespace = $1',
        [namespace],
      );
      return row?.count === count;
    },
    { what: `${String(count)} in line` },
  );
}

/** Judges when each key was granted next, against the kill and its expiry. */
async function judge(
  namespace: string,
  of: { readonly former: TestProcess; readonly next: TestProcess; readonly killedAtMs: number },
): Promise<void> {
  const expiries = await lease.expiries(namespace);
  const formerHeld = allWords([of.former], 'held');
  await waitUntil(() => allWords([of.next], 'held').length === KEYS.length, {
    what: 'the next holders',
    timeoutMs: 20_000,
  });
  const afterKillMs: number[] = [];
  const afterExpiryMs: number[] = [];
  for (const next of allWords([of.next], 'held')) {
    const former = formerHeld.find(({ key }) => key === next.key);
    afterKillMs.push(next.atMs - of.killedAtMs);
    afterExpiryMs.push(next.atMs - (expiries.get(former?.leaseId ?? '') ?? Infinity));
    expect(BigInt(next.token)).toBeGreaterThan(BigInt(former?.token ?? ''));
  }
  console.log(
    `${namespace}: the next in line had the lease ${Math.min(...afterExpiryMs).toFixed(0)} to ${Math.max(...afterExpiryMs).toFixed(0)} ms after the expiry, at most ${Math.max(...afterKillMs).toFixed(0)} ms after the kill`,
  );
  expect(Math.min(...afterExpiryMs), 'not before the expiry').toBeGreaterThan(-READING_MS_MAX);
  expect(Math.max(...afterKillMs), 'within the TTL and a second').toBeLessThan(
    TTL_MS + REGRANT_MS_MAX,
  );
}

describe.concurrent('a holder that is killed', () => {
  test('F4 I5 I10 C29 is succeeded by the next in line within its TTL and a second, and not before its expiry', async () => {
    const namespace = 'killed';
    const former = await startHolder(namespace, 'former');
    await waitUntil(() => allWords([former], 'held').length === KEYS.length);
    const next = await startHolder(namespace, 'next');
    await untilInLine(namespace, KEYS.length);

    const killedAtMs = machineMs();
    await former.kill();

    await judge(namespace, { former, next, killedAtMs });
  });

  test('F4 I9 I10 together with the first in line, delays the second no longer than that', async () => {
    const namespace = 'killed-with-head';
    const former = await startHolder(namespace, 'former');
    await waitUntil(() => allWords([former], 'held').length === KEYS.length);
    const first = await startHolder(namespace, 'first');
    await untilInLine(namespace, KEYS.length);
    const next = await startHolder(namespace, 'next');
    await untilInLine(namespace, 2 * KEYS.length);

    const killedAtMs = machineMs();
    await Promise.all([former.kill(), first.kill()]);

    await judge(namespace, { former, next, killedAtMs });
    expect(allWords([first], 'held')).toEqual([]);
  });
});
