import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
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
