import pg from 'pg';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import type { LeaseError } from '../kernel/errors.ts';
import { aGate } from '../testing/coordinator-fixture.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import { age } from '../testing/kernel-fixture.ts';
import { connect, NO_ROWS, openKeys, reportOf, rowCounts } from '../testing/keys-fixture.ts';

const CALLERS = 64;

describe('concurrent connects', () => {
  test('C9 64 for one key, through two controllers: exactly one spawns, and all get the same backend', async () => {
    const first = await openKeys();
    const second = await openKeys({ databaseUrl: first.databaseUrl });
    await Promise.all([aDrone(first.store.general), aDrone(first.store.general)]);

    const answers = await Promise.all(
      Array.from({ length: CALLERS }, (_, index) => connect(index % 2 === 0 ? first : second)),
    );

    expect(answers.filter(({ spawned }) => spawned)).toHaveLength(1);
    expect(
      new Set(answers.map(({ backendId, fencingToken }) => `${backendId} ${fencingToken}`)).size,
    ).toBe(1);
    expect(await rowCounts(first)).toMatchObject({ leases: 1, events: 1, backends: 1, actions: 1 });
  });

  test('C19 64 for one expired key: one takes it over, and the old backend is recorded as lost once', async () => {
    const first = await openKeys();
    const second = await openKeys({ databaseUrl: first.databaseUrl });
    await aDrone(first.store.general);
    const old = await connect(first);
    await age(first, old.leaseId, 60_000);

    const answers = await Promise.all(
      Array.from({ length: CALLERS }, (_, index) => connect(index % 2 === 0 ? first : second)),
    );

    expect(answers.filter(({ spawned }) => spawned)).toHaveLength(1);
    expect(new Set(answers.map(({ backendId }) => backendId)).size).toBe(1);
    expect(answers[0]?.backendId).not.toBe(old.backendId);
    expect(await rowCounts(first)).toMatchObject({ events: 3, backends: 2, states: 3, actions: 2 });
  });

  test('during which a backend ends start exactly one new backend, never two', async () => {
    const first = await openKeys();
    const second = await openKeys({ databaseUrl: first.databaseUrl });
    const drone = await aDrone(first.store.general, { capacity: 1_000 });
    for (let round = 0; round < 10; round += 1) {
      const { backendId } = await connect(first);

      const [, ...answers] = await Promise.all([
        first.keys.report(reportOf(drone, backendId, 'terminated', { reason: 'external' })),
        ...Array.from({ length: 8 }, (_, index) => connect(index % 2 === 0 ? first : second)),
      ]);

      const others = answers.filter((answer) => answer.backendId !== backendId);
      expect(others.filter(({ spawned }) => spawned).length).toBeLessThanOrEqual(1);
      expect(new Set(others.map((answer) => answer.backendId)).size).toBeLessThanOrEqual(1);
    }
  });
});

describe('concurrent connects of which one fails', () => {
  test('fail side by side, a few at once, each by one attempt of its own, and do not read the key again', async () => {
    const [first, others] = [aGate(), aGate()];
    let triesCount = 0;
    let atOnceCount = 0;
    let mostAtOnce = 0;
    const on = await openKeys({
      afterChoice: async () => {
        triesCount += 1;
        atOnceCount += 1;
        mostAtOnce = Math.max(mostAtOnce, atOnceCount);
        await (triesCount === 1 ? first : others).opened;
        atOnceCount -= 1;
      },
    });
    const sent = vi.spyOn(pg.Client.prototype, 'query');
    onTestFinished(() => sent.mockRestore());

    const codes = Array.from({ length: CALLERS }, () =>
      connect(on).then(
        () => 'an answer',
        (error: unknown) => (error as LeaseError).code,
      ),
    );
    await waitUntil(() => atOnceCount === 1, { what: 'the first attempt' });
    first.open();
    await waitUntil(() => atOnceCount === 4, { what: 'attempts side by side' });
    others.open();

    expect(new Set(await Promise.all(codes))).toEqual(new Set(['spawn.no_drone']));
    expect([triesCount, mostAtOnce]).toEqual([CALLERS, 4]);
    const reads = sent.mock.calls.filter(([query]: unknown[]) =>
      String((query as { readonly text?: string }).text).includes('recordedPlaces'),
    );
    expect(reads.length).toBeLessThan(5);
  });

  test('start one backend, which all get that can, by few attempts', async () => {
    let triesCount = 0;
    const on = await openKeys({
      afterChoice: () => {
        triesCount += 1;
        return Promise.resolve();
      },
    });
    await aDrone(on.store.general);

    const failing = connect(on, { spawn: { program: 'nobody-offers-it', args: [], env: {} } });
    const connects = Array.from({ length: CALLERS }, () => connect(on));
    await expect(failing).rejects.toMatchObject({ code: 'spawn.no_drone' });
    const answers = await Promise.all(connects);

    expect(answers.filter(({ spawned }) => spawned)).toHaveLength(1);
    expect(new Set(answers.map(({ backendId }) => backendId)).size).toBe(1);
    expect(await rowCounts(on)).toMatchObject({ leases: 1, backends: 1, actions: 1 });
    expect(triesCount).toBeLessThan(CALLERS / 2);
  });
});

describe('a connection that breaks', () => {
  test('while the transaction runs makes the outcome unknown, and reports that', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const session = new pg.Client({ connectionString: on.databaseUrl });
    await session.connect();
    onTestFinished(() => session.end());
    await session.query('begin');
    await session.query('select from drone where id = $1 for update', [drone.droneId]);

    const refused = expect(connect(on)).rejects.toMatchObject({ code: 'request.outcome_unknown' });
    await waitUntil(async () => {
      const killed = await on.store.general.$queryRaw<{ pid: number }[]>`
        select pg_terminate_backend(pid)::text, pid from pg_stat_activity
        where wait_event_type = 'Lock' and datname = current_database()`;
      return killed.length > 0;
    });
    await refused;
    await session.query('rollback');

    expect(await rowCounts(on)).toEqual(NO_ROWS);
    expect(await connect(on)).toMatchObject({ spawned: true });
  });
});
