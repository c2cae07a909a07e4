import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { openSession, recordHeartbeat, type SessionRef } from '../fleet/sql/drone-sessions.ts';
import { type Deadlines, KEY_LADDERS } from '../kernel/ladder.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import {
  actionsOf,
  connect,
  type Keys,
  NO_ROWS,
  openKeys,
  rowCounts,
} from '../testing/keys-fixture.ts';
import { freezeClock } from '../testing/shifted-clock.ts';

const START_MS = Date.UTC(2030, 0, 1);
const LADDER = KEY_LADDERS.standard;

async function openFrozen(afterChoice?: (on: Pick<Keys, 'store'>) => Promise<void>) {
  const { url } = await createTestDatabase();
  const setClock = await freezeClock(url);
  await setClock(START_MS);
  const on = await openKeys({
    databaseUrl: url,
    ...(afterChoice === undefined ? {} : { afterChoice }),
  });
  return { on, setClock };
}

async function deadlinesOf(on: Keys, backendId: string): Promise<Deadlines> {
  const [spawn] = await actionsOf(on, backendId);
  return spawn?.payload['deadlines'] as Deadlines;
}

async function reboot(
  on: Pick<Keys, 'store'>,
  { droneId }: Pick<SessionRef, 'droneId'>,
): Promise<SessionRef> {
  const clockId = randomUUID();
  const session = await openSession(on.store.general, {
    droneId,
    clockId,
    datacenter: 'local',
    version: 'test',
    capacity: 10,
    programs: [{ name: 'room', allowArgs: false, allowEnv: [] }],
  });
  return { droneId, clockId, session };
}

describe('the deadlines of a first grant', () => {
  test.each([0, 1, 2_000, 20_999])(
    'C25 C22 after a heartbeat %i ms old are in the drone’s clock, in order, and before the expiry',
    async (heartbeatAgeMs) => {
      const { on, setClock } = await openFrozen();
      const drone = await aDrone(on.store.general, { heartbeatAgeMs: null });
      const localTimeMs = 864_000_000.5;
      await recordHeartbeat(on.store.general, { ...drone, localTimeMs, load: {} });
      await setClock(START_MS + heartbeatAgeMs);

      const { backendId } = await connect(on);

      const deadlines = await deadlinesOf(on, backendId);
      const nowMs = localTimeMs + heartbeatAgeMs;
      expect(deadlines).toEqual({
        renewAtMs: nowMs + LADDER.renewAfterMs,
        softTerminateAtMs: nowMs + LADDER.softAfterMs,
        hardTerminateAtMs: nowMs + LADDER.hardAfterMs,
      });
      // The heartbeat was received after it was sent: however long it travelled, the drone's clock
      // is by now at least at `nowMs`, and the grant expires a ladder after that.
      expect(deadlines.hardTerminateAtMs).toBeLessThan(nowMs + LADDER.ttlMs);
    },
  );

  test('C25 are early by as much as the heartbeat was delayed, never late', async () => {
    const { on, setClock } = await openFrozen();
    const drone = await aDrone(on.store.general, { heartbeatAgeMs: null });
    const sentAtMs = 5_000;
    const travelledMs = 9_000;
    await setClock(START_MS + travelledMs);
    await recordHeartbeat(on.store.general, { ...drone, localTimeMs: sentAtMs, load: {} });

    const { backendId } = await connect(on);

    const trueLocalMs = sentAtMs + travelledMs;
    const { hardTerminateAtMs } = await deadlinesOf(on, backendId);
    expect(hardTerminateAtMs).toBe(trueLocalMs - travelledMs + LADDER.hardAfterMs);
  });

  test('C47 are in the new clock of a rebooted drone, which is not chosen before its first heartbeat', async () => {
    const { on } = await openFrozen();
    const before = await aDrone(on.store.general, { heartbeatAgeMs: null });
    await recordHeartbeat(on.store.general, { ...before, localTimeMs: 864_000_000, load: {} });
    const after = await reboot(on, before);

    await expect(connect(on)).rejects.toMatchObject({ code: 'spawn.no_drone' });
    const late = recordHeartbeat(on.store.general, {
      ...before,
      localTimeMs: 864_000_100,
      load: {},
    });
    await expect(late).rejects.toMatchObject({ code: 'session.superseded' });
    expect(await rowCounts(on)).toEqual(NO_ROWS);

    await recordHeartbeat(on.store.general, { ...after, localTimeMs: 5_000, load: {} });
    const { backendId } = await connect(on);

    expect((await deadlinesOf(on, backendId)).hardTerminateAtMs).toBe(5_000 + LADDER.hardAfterMs);
    expect((await actionsOf(on, backendId))[0]?.payload['clockId']).toBe(after.clockId);
  });

  test('C47 a drone that reboots between choice and commit gets no backend, and nothing is left behind', async () => {
    const chosen = { droneId: '' };
    const { on } = await openFrozen(async (kernel) => {
      await reboot(kernel, chosen);
    });
    chosen.droneId = (await aDrone(on.store.general)).droneId;

    await expect(connect(on)).rejects.toMatchObject({ code: 'spawn.no_drone' });

    expect(await rowCounts(on)).toEqual(NO_ROWS);
  });
});
