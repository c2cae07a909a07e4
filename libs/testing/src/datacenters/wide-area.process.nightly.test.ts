import { Etcd3 } from 'etcd3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TestEtcd } from '../etcd.ts';
import { waitUntil } from '../wait-until.ts';
import { startEtcdAcross } from './etcd-across.ts';
import { createWideArea, type WideArea } from './wide-area.ts';

const NAMES = ['dc1', 'dc2', 'dc3'];
const DELAY_MS = 20;
const ROUND_TRIP_MS = 2 * DELAY_MS;

let area: WideArea;
let etcd: TestEtcd;

beforeAll(async () => {
  area = createWideArea(NAMES, DELAY_MS);
  etcd = await startEtcdAcross(area, NAMES);
});

afterAll(async () => {
  await etcd.stop();
  await area.close();
});

/** How long a put takes at a member, in milliseconds. */
async function putAt(index: number): Promise<number> {
  const client = new Etcd3({ hosts: etcd.endpoints[index] ?? '' });
  try {
    await client.put('warm').value('up');
    const startedAtMs = performance.now();
    await client.put('key').value('value');
    return performance.now() - startedAtMs;
  } finally {
    client.close();
  }
}

async function leader(): Promise<number> {
  return waitUntil(async () => {
    const index = await etcd.leader();
    return index === undefined ? undefined : { index };
  }).then(({ index }) => index);
}

describe('members of etcd with long lines between them', () => {
  test('a put takes one round trip at the leader, and two at another member', async () => {
    const leads = await leader();

    expect(await putAt(leads)).toBeGreaterThanOrEqual(ROUND_TRIP_MS - 2);
    expect(await putAt((leads + 1) % NAMES.length)).toBeGreaterThanOrEqual(2 * ROUND_TRIP_MS - 4);
  });

  test.each([['silent'], ['refused']] as const)(
    'a leader that is cut off (%s) stops leading, the others go on, and it comes back',
    async (how) => {
      const leads = await leader();
      const lost = NAMES[leads] ?? '';
      const others = NAMES.filter((name) => name !== lost);
      for (const other of others) area.cut(lost, other, how);

      await waitUntil(async () => !(await etcd.isHealthy(leads)));
      await waitUntil(() => etcd.isHealthy((leads + 1) % NAMES.length));
      expect(others.map((other) => area.isCut(lost, other))).toEqual([true, true]);

      for (const other of others) area.heal(lost, other);
      await etcd.waitUntilHealthy();
      expect(await putAt(leads)).toBeGreaterThan(0);
    },
  );
});
