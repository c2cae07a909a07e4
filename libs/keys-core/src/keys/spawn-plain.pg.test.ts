/** What may happen between the choice of a drone and the one statement of a plain connect. */
import { describe, expect, test } from 'vitest';
import { aDrone } from '../testing/fleet-fixture.ts';
import { age, eventsOf } from '../testing/kernel-fixture.ts';
import { connect, type Keys, openKeys, reportOf, statesOf } from '../testing/keys-fixture.ts';
import type { ConnectResult } from './key-types.ts';

/** A controller, during whose first choice of a drone another one does something to the same key. */
async function openBoth(meanwhile: (other: Keys) => Promise<unknown>) {
  const todo: (() => Promise<unknown>)[] = [];
  const on = await openKeys({
    afterChoice: async () => {
      await todo.pop()?.();
    },
  });
  const drone = await aDrone(on.store.general);
  const other = await openKeys({ databaseUrl: on.databaseUrl });
  todo.push(() => meanwhile(other));
  return { on, drone };
}

describe('between the choice of a drone and the grant', () => {
  test('a key that was granted is not granted again: its backend is the answer', async () => {
    const made: ConnectResult[] = [];
    const { on } = await openBoth(async (other) => made.push(await connect(other)));

    const answer = await connect(on);

    expect(answer).toEqual({ ...made[0], spawned: false });
    expect(await eventsOf(on, 'demo')).toEqual([`granted ${answer.fencingToken}`]);
  });

  test('a key that was granted and ran out is taken over, and its backend recorded as lost', async () => {
    const made: ConnectResult[] = [];
    const { on } = await openBoth(async (other) => {
      const lost = await connect(other);
      await age(other, lost.leaseId, 60_000);
      made.push(lost);
    });

    const answer = await connect(on);

    const [lost] = made;
    expect(answer.spawned).toBe(true);
    expect(BigInt(answer.fencingToken)).toBeGreaterThan(BigInt(lost?.fencingToken ?? 0));
    expect((await statesOf(on, lost?.backendId ?? '')).now).toBe('terminated drone_lost');
    expect(await eventsOf(on, 'demo')).toEqual([
      `granted ${lost?.fencingToken ?? ''}`,
      `expired ${lost?.fencingToken ?? ''}`,
      `taken_over ${answer.fencingToken}`,
    ]);
  });

  test('a key that was granted and released is granted with a larger token', async () => {
    const made: ConnectResult[] = [];
    const { on, drone } = await openBoth(async (other) => {
      const ended = await connect(other);
      await other.keys.report(reportOf(drone, ended.backendId, 'terminated'));
      made.push(ended);
    });

    const answer = await connect(on);

    const token = made[0]?.fencingToken ?? '';
    expect(BigInt(answer.fencingToken)).toBeGreaterThan(BigInt(token));
    expect(await eventsOf(on, 'demo')).toEqual([
      `granted ${token}`,
      `released ${token}`,
      `granted ${answer.fencingToken}`,
    ]);
  });
});
