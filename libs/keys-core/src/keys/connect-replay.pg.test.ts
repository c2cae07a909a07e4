import { describe, expect, test } from 'vitest';
import { aDrone } from '../testing/fleet-fixture.ts';
import { age } from '../testing/kernel-fixture.ts';
import {
  CLIENT,
  connect,
  keyNamed,
  openKeys,
  reportOf,
  rowCounts,
} from '../testing/keys-fixture.ts';

const IDEMPOTENT = { idempotencyKey: 'request-1' };

describe('a connect that is sent again with its idempotency key', () => {
  test('I7 returns the same backend, and still reports it as spawned by this request', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const made = await connect(on, IDEMPOTENT);

    const again = await connect(on, IDEMPOTENT);

    expect(again).toEqual(made);
    expect(await rowCounts(on)).toMatchObject({ backends: 1, events: 1, requests: 1 });
  });

  test('I7 a late duplicate after the release spawns nothing, and shows that the backend has ended', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const made = await connect(on, IDEMPOTENT);
    await on.keys.report(reportOf(drone, made.backendId, 'terminated', { reason: 'exited' }));

    const late = await connect(on, IDEMPOTENT);

    expect(late).toEqual({ ...made, status: 'terminated' });
    expect(await rowCounts(on)).toMatchObject({ backends: 1 });
    expect(await connect(on)).toMatchObject({ spawned: true });
  });

  test('I7 a late duplicate after a takeover gets the old answer, and not the new backend', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const made = await connect(on, IDEMPOTENT);
    await age(on, made.leaseId, 60_000);
    const next = await connect(on);

    expect(await connect(on, IDEMPOTENT)).toEqual({ ...made, status: 'terminated' });
    expect((await connect(on)).backendId).toBe(next.backendId);
  });

  test('I7 gets the answer "it runs already" again, even when the backend has ended', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);
    const seen = await connect(on, IDEMPOTENT);
    await on.keys.report(reportOf(drone, backendId, 'terminated'));

    const late = await connect(on, IDEMPOTENT);

    expect(seen).toMatchObject({ backendId, spawned: false });
    expect(late).toEqual({ ...seen, status: 'terminated' });
    expect(await rowCounts(on)).toMatchObject({ backends: 1 });
  });

  test('a connect without a program that finds a backend leaves no record, and looks again when it is sent again', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);
    const looking = { ...IDEMPOTENT, spawn: undefined };

    expect(await connect(on, looking)).toMatchObject({ backendId, spawned: false });
    expect(await rowCounts(on)).toMatchObject({ requests: 0 });
    await on.keys.report(reportOf(drone, backendId, 'terminated'));

    await expect(connect(on, looking)).rejects.toMatchObject({ code: 'key.unheld' });
    // A refusal is recorded, and stays.
    await connect(on);
    await expect(connect(on, looking)).rejects.toMatchObject({ code: 'key.unheld' });
  });

  test('many that find the backend of a key are recorded together, each with its own answer', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);
    const sent = Array.from({ length: 50 }, (_, place) => ({
      idempotencyKey: `request-${String(place)}`,
    }));

    const answers = await Promise.all(sent.map((request) => connect(on, request)));

    expect(answers.every((answer) => answer.backendId === backendId && !answer.spawned)).toBe(true);
    const [written] = await on.store.general.$queryRaw<{ transactions: number }[]>`
      select count(distinct xmin::text)::int as transactions from lease_request`;
    expect(written).toEqual({ transactions: 1 });
    await on.keys.report(reportOf(drone, backendId, 'terminated'));
    for (const request of sent) {
      expect(await connect(on, request)).toMatchObject({ backendId, status: 'terminated' });
    }
  });

  test('I7 many equal requests at once, through two controllers, spawn once and get the same answer', async () => {
    const on = await openKeys();
    const other = await openKeys({ databaseUrl: on.databaseUrl });
    await aDrone(on.store.general);

    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, index) => connect(index % 2 === 0 ? on : other, IDEMPOTENT)),
    );

    const [first] = answers;
    expect(answers).toEqual(answers.map(() => first));
    expect(first).toMatchObject({ spawned: true });
    expect(await rowCounts(on)).toMatchObject({
      leases: 1,
      backends: 1,
      actions: 1,
      events: 1,
      requests: 1,
    });
  });

  test('I7 gets the same refusal again, even when the key is free by then', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const red = { ...IDEMPOTENT, key: { name: 'demo', namespace: '', tag: 'red' } };
    const { backendId } = await connect(on);
    await expect(connect(on, red)).rejects.toMatchObject({ code: 'key.tag_mismatch' });
    await on.keys.report(reportOf(drone, backendId, 'terminated'));

    await expect(connect(on, red)).rejects.toMatchObject({
      code: 'key.tag_mismatch',
      details: { holder: drone.droneId },
    });

    expect(await rowCounts(on)).toMatchObject({ backends: 1, requests: 1 });
  });

  test('a retryable refusal is not recorded: the same request may succeed later', async () => {
    const on = await openKeys();
    await expect(connect(on, IDEMPOTENT)).rejects.toMatchObject({ code: 'spawn.no_drone' });
    await aDrone(on.store.general);

    expect(await connect(on, IDEMPOTENT)).toMatchObject({ spawned: true });
  });

  test('another caller’s request with the same idempotency key is another request', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const mine = await connect(on, IDEMPOTENT);

    const theirs = await connect(
      on,
      { ...IDEMPOTENT, key: keyNamed('other') },
      {
        caller: { ...CLIENT, principal: 'token-d' },
      },
    );

    expect(theirs.backendId).not.toBe(mine.backendId);
  });
});
