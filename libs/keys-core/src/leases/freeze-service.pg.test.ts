import { randomUUID } from 'node:crypto';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  daily,
  deploy,
  type Frozen,
  frozen,
  HOUR_MS,
  inMs,
  neglected,
  openEnvironments,
  OPERATOR,
  PROD,
} from '../testing/freeze-fixture.ts';
import { acquired, ALIVE, codeOf, openLeases } from '../testing/lease-fixture.ts';
import { aGuard, aRequest, BY, eventsOf, UNAUDITED } from '../testing/kernel-fixture.ts';
import { waitUntil } from '@leasehold/testing';
import { grant } from '../grants/index.ts';
import { LIMITS } from '../kernel/limits.ts';
import type { FreezeInput } from './index.ts';
import { tryAcquireEnvironment, withEnvironmentLease } from './environment-lease.ts';
import { REVOCATIONS_TOPIC } from './sql/revocations.ts';

/** Every Friday evening to Monday morning, so that the database's clock is outside, unless it is aged. */
const WEEKLY = { schedule: '0 17 * * 5', durationMs: 63 * HOUR_MS, zone: 'Europe/Zurich' };

describe('a frozen environment', () => {
  test('is refused at once, with the freeze, its reason, its end and who may override it', async () => {
    const at = await openEnvironments();
    const until = inMs(HOUR_MS);
    const freeze = await frozen(at, { until, allowPeople: ['ci'] });

    await expect(deploy(at)).rejects.toMatchObject({
      code: 'environment.frozen',
      retryable: false,
      message: `The environment is frozen until ${until}: the audit is on`,
      details: {
        freezeId: freeze.freezeId,
        reason: 'the audit is on',
        until,
        roles: ['operator', 'admin'],
        people: ['ci'],
      },
    });
    expect(await eventsOf(at, 'prod')).toEqual([]);
  });

  test('is one that a freeze names, or any below a namespace that is frozen', async () => {
    const at = await openEnvironments();
    await frozen(at, { namespace: 'team', name: null });

    expect(await codeOf(deploy(at))).toBe('environment.frozen');
    expect(await codeOf(deploy(at, { namespace: 'team' }))).toBe('environment.frozen');
    await acquired(at, { namespace: 'team2.app', name: 'prod' });
    await acquired(at, { namespace: '', name: 'team' });
    await frozen(at, { namespace: '', name: 'other' });
    expect(await codeOf(deploy(at, { namespace: '', name: 'other' }))).toBe('environment.frozen');
    await acquired(at, { namespace: 'other', name: 'other' });
    await frozen(at, { namespace: '', name: null });
    expect(await codeOf(deploy(at, { namespace: '', name: 'more' }))).toBe('environment.frozen');
  });

  test('is frozen for one action alone, if the freeze names one', async () => {
    const at = await openEnvironments();
    await frozen(at, { action: 'deploy' });

    expect(await codeOf(deploy(at))).toBe('environment.frozen');
    await acquired(at, { ...PROD, action: 'rollback' });
  });

  test('is refused whether it was ever held, was released, has expired or is held', async () => {
    const at = await openEnvironments();
    const holder = await acquired(at, { ...PROD, name: 'held' });
    const last = await acquired(at, { ...PROD, name: 'released' });
    await at.service.release({ ...last, result: 'ok' }, { ...OPERATOR, principal: 'token-s' });
    const old = await acquired(at, { ...PROD, name: 'expired' });
    await at.store.general.$queryRaw`
      update lease set expires_at = clock_timestamp() - interval '1 s' where lease_id = ${old.leaseId}::uuid`;
    await frozen(at, { namespace: 'team', name: null });

    for (const name of ['new', 'held', 'released', 'expired']) {
      expect([name, await codeOf(deploy(at, { name }))]).toEqual([name, 'environment.frozen']);
    }
    // Who holds it goes on, and is renewed.
    const [renewed] = await at.service.heartbeat(
      { localTimeMs: 1_000_000, renewals: [holder] },
      { ...OPERATOR, principal: 'token-s' },
    );
    expect(renewed).toMatchObject({ outcome: 'renewed' });
  });

  test('is so within the window of the freeze, and not before or after it', async () => {
    const at = await openEnvironments();
    const freeze = await frozen(at, { from: inMs(HOUR_MS), until: inMs(2 * HOUR_MS) });
    expect(freeze.state).toBe('upcoming');
    await acquired(at, { ...PROD, name: 'before' });

    const move = (ms: number) => at.store.general.$queryRaw`
      update environment_freeze set
        window_from = window_from + ${ms}::int * interval '1 ms',
        window_until = window_until + ${ms}::int * interval '1 ms',
        ends_at = ends_at + ${ms}::int * interval '1 ms'`;
    await frozen(at, { name: 'before', from: inMs(HOUR_MS), until: inMs(2 * HOUR_MS) });
    await move(-1.5 * HOUR_MS);
    expect(await codeOf(deploy(at))).toBe('environment.frozen');
    await move(-HOUR_MS);
    await acquired(at, PROD);
  });

  test('of several freezes the one that lasts the longest is named', async () => {
    const at = await openEnvironments();
    await frozen(at, { until: inMs(HOUR_MS) });
    const { freezeId } = await frozen(at, {
      until: inMs(3 * HOUR_MS),
      namespace: 'team',
      name: null,
    });
    await frozen(at, { until: inMs(2 * HOUR_MS) });

    await expect(deploy(at)).rejects.toMatchObject({ details: { freezeId } });
  });

  test('is refused to services with a coordinator of their own, too', async () => {
    const at = await openEnvironments();
    await frozen(at, { namespace: '', name: 'prod' });
    const deps = { store: at.store, leases: at.leases, principal: 'service' };
    const request = { action: 'deploy', holder: 'host' };

    expect(await codeOf(tryAcquireEnvironment(deps, 'prod', request))).toBe('environment.frozen');
    const use = { ...request, record: () => 'recorded' };
    expect(await codeOf(withEnvironmentLease(deps, 'prod', use))).toBe('environment.frozen');
  });

  test('stays refused to a request that is sent again after the freeze, by its idempotency key', async () => {
    const at = await openEnvironments();
    const { freezeId } = await frozen(at);
    const input = {
      ...PROD,
      action: 'deploy',
      ttlMs: 60_000,
      waitMs: 0,
      holder: 'alice',
      localTimeMs: 1_000,
      idempotencyKey: randomUUID(),
    };
    const failure: unknown = await at.service
      .acquire(input, OPERATOR, ALIVE)
      .catch((e: unknown) => e);
    expect(await codeOf(at.service.refuse(input, OPERATOR, failure))).toBe('environment.frozen');
    await at.freezes.unfreeze({ freezeId, reason: 'done' }, OPERATOR, BY);

    expect(await codeOf(at.service.acquire(input, OPERATOR, ALIVE))).toBe('environment.frozen');
    await acquired(at, PROD);
  });

  test('leases and keys of the same name know no freeze', async () => {
    const at = await openEnvironments();
    await frozen(at, { namespace: '', name: null });
    const leases = await openLeases({ databaseUrl: at.databaseUrl });

    expect(await acquired(leases, PROD)).toMatchObject({ key: 'prod' });
  });
});

describe('a recurring freeze', () => {
  test('whose window is over is given its present one by the first caller, and stops it', async () => {
    const at = await openEnvironments();
    const other = await openEnvironments(at.databaseUrl);
    await neglected(at, daily(-30));

    const answers = await Promise.all([at, other, at, other].map((one) => codeOf(deploy(one))));

    expect(new Set(answers)).toEqual(new Set(['environment.frozen']));
  });

  test('whose window is over and whose next is to come stops nobody', async () => {
    const at = await openEnvironments();
    const other = await openEnvironments(at.databaseUrl);
    const freezeId = await neglected(at, daily(60));

    const answers = await Promise.all([at, other].map((one) => deploy(one)));

    expect(answers.map(({ outcome }) => outcome).sort()).toEqual(['granted', 'held']);
    const { items } = await at.freezes.list({ limit: 10 }, OPERATOR);
    const [row] = await at.store.general.$queryRaw<{ from: Date }[]>`
      select window_from as from from environment_freeze where freeze_id = ${freezeId}::uuid`;
    expect(items).toMatchObject([{ freezeId, state: 'upcoming' }]);
    expect(items[0]?.windows.map(({ from }) => from)[0]).toBe(row?.from.toISOString());
    expect(items[0]?.windows).toHaveLength(3);
  });

  test('stops a service that records within its own transaction, too', async () => {
    const at = await openEnvironments();
    await neglected(at, daily(60));
    const deps = { store: at.store, leases: at.leases, principal: 'service' };

    const used = await withEnvironmentLease(deps, ['team', 'app', 'prod'], {
      action: 'deploy',
      holder: 'host',
      record: () => 'recorded',
    });

    expect(used).toMatchObject({ outcome: 'recorded' });
  });
});

describe('a freeze that is made', () => {
  /** So many more like the one that there is, by the same caller. */
  const fill = (at: Frozen, count: number): Promise<unknown> =>
    at.store.general.$queryRaw`
      insert into environment_freeze (
        freeze_id, namespace, name, reason, window_from, window_until, ends_at, pass_roles, pass_people, created_by
      )
      select gen_random_uuid(), 'many', n::text, 'r', window_from, window_until, ends_at, pass_roles, pass_people,
        created_by
      from environment_freeze, generate_series(1, ${count}::int) n`;

  test.each([
    ['until', { until: inMs(-1_000) }],
    ['until', { from: inMs(2 * HOUR_MS), until: inMs(HOUR_MS) }],
    ['until', { until: undefined }],
    ['until', { until: inMs(LIMITS.freezeOnceMsMax + HOUR_MS) }],
    ['recurrence', { recurrence: WEEKLY }],
    ['zone', { until: undefined, recurrence: { ...WEEKLY, zone: 'Mars/Olympus' } }],
    ['schedule', { until: undefined, recurrence: { ...WEEKLY, schedule: 'weekends' } }],
    ['allowRoles', { allowRoles: ['king'] }],
    ['stopRunning', { from: inMs(HOUR_MS), until: inMs(2 * HOUR_MS), stopRunning: true }],
  ])('needs a right %s: %o', async (field, change) => {
    const at = await openEnvironments();
    await expect(frozen(at, change as Partial<FreezeInput>)).rejects.toMatchObject({
      code: 'request.invalid',
      details: { field },
    });
    expect((await at.freezes.list({ limit: 10, withHistory: true }, OPERATOR)).items).toEqual([]);
  });

  test('stops nobody who has begun, unless that is asked: then holders are told to stop', async () => {
    const at = await openEnvironments();
    await acquired(at, { ...PROD, action: 'deploy' });
    await acquired(at, { ...PROD, name: 'test', action: 'deploy' });
    await acquired(at, { ...PROD, name: 'other', action: 'rollback' });
    await acquired(at, { namespace: 'elsewhere', name: 'prod', action: 'deploy' });
    await frozen(at);
    expect(await eventsOf(at, 'prod')).toHaveLength(2);

    const all = { namespace: 'team', name: null, reason: 'incident', until: inMs(HOUR_MS) };
    const { stopped } = await at.freezes.freeze(
      { ...all, action: 'deploy', stopRunning: true },
      OPERATOR,
      BY,
    );

    expect(stopped).toBe(2);
    const rows = await at.store.general.$queryRaw`
      select namespace || '/' || name as at, reason from lease_event where kind = 'revoked' order by 1`;
    expect(rows).toEqual([
      { at: 'team.app/prod', reason: 'incident' },
      { at: 'team.app/test', reason: 'incident' },
    ]);
  });

  test('is named where its holders could not be told to stop, who are looked at nevertheless', async () => {
    const at = await openEnvironments();
    const holder = await acquired(at, PROD);
    const looked = vi.fn();
    onTestFinished(at.store.hints.on(REVOCATIONS_TOPIC, looked));
    const input = { ...PROD, reason: 'incident', until: inMs(HOUR_MS), stopRunning: true };

    const failure = await at.store.general.$transaction(async (tx) => {
      await tx.$queryRaw`select from lease where lease_id = ${holder.leaseId}::uuid for update`;
      return at.freezes.freeze(input, OPERATOR, BY).catch((error: unknown) => error);
    });

    const [freeze] = (await at.freezes.list({ limit: 1 }, OPERATOR)).items;
    expect(failure).toMatchObject({
      code: 'request.outcome_unknown',
      message: expect.stringContaining('It is frozen') as string,
      details: { freezeId: freeze?.freezeId },
    });
    expect(looked).toHaveBeenCalled();
  });

  test('is removed with a reason, once, and kept for the history', async () => {
    const at = await openEnvironments();
    const { freezeId } = await frozen(at);
    const act = { freezeId, reason: 'the audit is over' };

    const { freeze } = await at.freezes.unfreeze(act, OPERATOR, BY);

    expect(freeze).toMatchObject({
      state: 'removed',
      removedBy: OPERATOR.actor,
      removedReason: act.reason,
    });
    expect(await codeOf(at.freezes.unfreeze(act, OPERATOR, BY))).toBe('freeze.not_found');
    await acquired(at, PROD);
    expect((await at.freezes.list({ limit: 10 }, OPERATOR)).items).toEqual([]);
    expect((await at.freezes.list({ limit: 10, withHistory: true }, OPERATOR)).items).toEqual([
      { ...freeze, windows: freeze.windows },
    ]);
  });

  test('is in the audit, and is not made when it cannot be', async () => {
    const at = await openEnvironments();
    const input = { ...PROD, reason: 'incident', until: inMs(HOUR_MS), stopRunning: true };

    await expect(at.freezes.freeze(input, OPERATOR, UNAUDITED)).rejects.toThrow();
    await acquired(at, PROD);
    const { freeze } = await at.freezes.freeze(input, OPERATOR, BY);
    const { reason, ...detail } = input;
    const past = { ...input, until: inMs(-HOUR_MS) };
    expect(await codeOf(at.freezes.freeze(past, OPERATOR, BY))).toBe('request.invalid');

    const resource = `freeze:${freeze.freezeId}`;
    expect(await at.store.general.$queryRaw`select * from audit`).toMatchObject([
      { ...BY, action: 'environments.freeze', resource, reason, detail },
    ]);
  });

  test('stays when its end cannot be audited', async () => {
    const at = await openEnvironments();
    const { freezeId } = await frozen(at);
    const act = { freezeId, reason: 'the audit is over' };

    await expect(at.freezes.unfreeze(act, OPERATOR, UNAUDITED)).rejects.toThrow();

    expect((await at.freezes.list({ limit: 10 }, OPERATOR)).items).toHaveLength(1);
    await at.freezes.unfreeze(act, OPERATOR, BY);
    expect(await at.store.general.$queryRaw`select * from audit`).toMatchObject([
      { ...BY, action: 'environments.freeze' },
      {
        ...BY,
        action: 'environments.unfreeze',
        resource: `freeze:${freezeId}`,
        reason: act.reason,
        detail: { ...PROD, why: 'the audit is on' },
      },
    ]);
  });

  test('is seen and ended by those alone who may see its environments', async () => {
    const at = await openEnvironments();
    const all = await frozen(at, { namespace: '', name: null });
    const app = await frozen(at, { namespace: 'team.app', name: null });
    const prod = await frozen(at);
    const other = await frozen(at, { namespace: 'team.app2', name: 'prod' });
    const limited = { ...OPERATOR, namespaces: ['team.app'] };

    const { items } = await at.freezes.list({ limit: 10 }, limited);

    expect(new Set(items.map(({ freezeId }) => freezeId))).toEqual(
      new Set([prod.freezeId, app.freezeId, all.freezeId]),
    );
    for (const { freezeId } of [all, other]) {
      expect(await codeOf(at.freezes.unfreeze({ freezeId, reason: 'r' }, limited, BY))).toBe(
        'freeze.not_found',
      );
    }
    const about = await at.freezes.list({ limit: 10, environment: PROD }, OPERATOR);
    expect(about.items).toHaveLength(3);
    const within = await at.freezes.list({ limit: 10, namespace: 'team.app2' }, OPERATOR);
    expect(within.items.map(({ freezeId }) => freezeId)).toEqual([other.freezeId]);
  });

  test('is on one page after the other, the newest first', async () => {
    const at = await openEnvironments();
    const made: string[] = [];
    for (const ageS of [3, 2, 1]) {
      const { freezeId } = await frozen(at);
      made.unshift(freezeId);
      // Those of one millisecond have no order.
      await at.store.general.$executeRaw`
        update environment_freeze set created_at = clock_timestamp() - ${ageS}::int * interval '1 s'
        where freeze_id = ${freezeId}::uuid`;
    }

    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await at.freezes.list({ limit: 1, cursor }, OPERATOR);
      seen.push(...page.items.map(({ freezeId }) => freezeId));
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);

    expect(seen).toEqual(made);
  });

  test('is one of a bounded number', async () => {
    const at = await openEnvironments();
    await frozen(at);
    await fill(at, LIMITS.freezesMax - 1);

    expect(await codeOf(frozen(at))).toBe('quota.exceeded');
    await at.freezes.unfreeze(
      {
        freezeId: (await at.freezes.list({ limit: 1 }, OPERATOR)).items[0]?.freezeId ?? '',
        reason: 'r',
      },
      OPERATOR,
      BY,
    );
    await frozen(at);
  });

  test('is one of fewer for a caller who is limited to namespaces: the others have room left', async () => {
    const at = await openEnvironments();
    const limited = { ...OPERATOR, actor: 'lisa', namespaces: ['team'] };
    const input = { ...PROD, reason: 'r', until: inMs(HOUR_MS) };
    const { freeze } = await at.freezes.freeze(input, limited, BY);
    await fill(at, LIMITS.freezesOfOneMax - 1);

    await expect(at.freezes.freeze(input, limited, BY)).rejects.toMatchObject({
      code: 'quota.exceeded',
      details: { limit: 'freezes', max: LIMITS.freezesOfOneMax },
    });
    await at.freezes.freeze(input, { ...limited, actor: 'leo' }, BY);
    await at.freezes.freeze(input, OPERATOR, BY);
    await at.freezes.unfreeze({ freezeId: freeze.freezeId, reason: 'r' }, limited, BY);
    await at.freezes.freeze(input, limited, BY);
  });
});

describe('a freeze that is made while environments are acquired', () => {
  test('comes after each acquire that has not seen it, and before all others', async () => {
    const at = await openEnvironments();
    const other = await openEnvironments(at.databaseUrl);
    const guard = await aGuard(at.store);
    const request = aRequest({ ...PROD, face: 'environment', tag: 'deploy' });

    const { freezing, late } = await at.store.general.$transaction(async (tx) => {
      // Granted, and not committed.
      const { grants } = await grant(tx, [request], { guard, onLocked: 'wait' });
      expect(grants.size).toBe(1);
      let isFrozen = false;
      const made = frozen(other, { namespace: 'team', name: null }).then(() => (isFrozen = true));
      await waitUntil(() => isLockAwaited(tx, 'ExclusiveLock'));
      const asked = codeOf(deploy(other, { name: 'test' }));
      await waitUntil(() => isLockAwaited(tx, 'RowShareLock'));
      expect(isFrozen).toBe(false);
      // Not waited for in here: they wait for this transaction.
      return { freezing: () => made, late: () => asked };
    });

    expect(await freezing()).toBe(true);
    expect(await late()).toBe('environment.frozen');
    expect(await codeOf(deploy(at))).toBe('environment.frozen');
    expect(await grantsAfterFreezes(at)).toEqual([]);
  });

  test('is honoured by every acquire from its commit on, through each of two controllers', async () => {
    const at = await openEnvironments();
    const other = await openEnvironments(at.databaseUrl);
    const names = Array.from({ length: 8 }, (_, index) => `env-${String(index)}`);
    let granted = 0;
    const untilFrozen = async (name: string, one: Frozen): Promise<string> => {
      for (;;) {
        const asked = deploy(one, { name });
        const code = await codeOf(asked);
        if (code !== 'no error') return code;
        const answer = await asked;
        if (answer.outcome !== 'granted') continue;
        granted += 1;
        await one.service.release(
          { ...answer.lease, result: 'ok' },
          { ...OPERATOR, principal: 'token-s' },
        );
      }
    };
    const asking = names.flatMap((name) => [untilFrozen(name, at), untilFrozen(name, other)]);
    await waitUntil(() => granted > names.length);

    for (const [index, name] of names.entries()) {
      await frozen(index % 2 === 0 ? at : other, { name });
    }

    expect(new Set(await Promise.all(asking))).toEqual(new Set(['environment.frozen']));
    expect(await grantsAfterFreezes(at)).toEqual([]);
  });

  /** Grants that were made after a freeze of their environment had been, by the database's clock. */
  function grantsAfterFreezes({ store }: Frozen): Promise<unknown> {
    return store.general.$queryRaw`
      select e.name, e.at, f.created_at
      from lease_event e
      join environment_freeze f on f.namespace = e.namespace and f.name = e.name
      where e.kind in ('granted', 'taken_over') and e.at > f.created_at`;
  }

  async function isLockAwaited(tx: Pick<Frozen['store']['general'], '$queryRaw'>, mode: string) {
    const rows = await tx.$queryRaw<unknown[]>`
      select from pg_locks
      where relation = 'environment_freeze'::regclass and not granted and mode = ${mode}`;
    return rows.length > 0;
  }
});
