/** Acquires of environments although they are frozen: who may, and what is recorded. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Caller } from '../kernel/face-types.ts';
import {
  daily,
  deploy,
  frozen,
  neglected,
  openEnvironments,
  OPERATOR,
  PROD,
} from '../testing/freeze-fixture.ts';
import { acquired, codeOf } from '../testing/lease-fixture.ts';

describe('an override', () => {
  const CLIENT: Caller = { ...OPERATOR, principal: 'token-c', actor: 'ci', role: 'client' };
  const override = { reason: 'the fix for incident 12' };

  test('is of operators and administrators, unless the freeze names others, and of those whom it names', async () => {
    const at = await openEnvironments();
    await frozen(at, { name: 'usual' });
    await frozen(at, { name: 'admins', allowRoles: ['admin'] });
    await frozen(at, { name: 'ci', allowRoles: [], allowPeople: ['ci'] });
    const admin = { ...OPERATOR, role: 'admin' };
    const outcome = (name: string, caller: Caller) =>
      deploy(at, { name, override, ttlMs: 1_000 }, caller).then(
        (answer) => answer.outcome,
        (error: unknown) => (error as { code: string }).code,
      );

    expect(await codeOf(deploy(at, { name: 'usual' }, OPERATOR))).toBe('environment.frozen');
    expect(await outcome('usual', CLIENT)).toBe('environment.frozen');
    expect(await outcome('usual', OPERATOR)).toBe('granted');
    expect(await outcome('admins', OPERATOR)).toBe('environment.frozen');
    expect(await outcome('admins', admin)).toBe('granted');
    expect(await outcome('ci', admin)).toBe('environment.frozen');
    expect(await outcome('ci', CLIENT)).toBe('granted');
  });

  test('must be allowed by each freeze', async () => {
    const at = await openEnvironments();
    await frozen(at);
    await frozen(at, { namespace: '', name: null, allowRoles: ['admin'] });

    expect(await codeOf(deploy(at, { override }, OPERATOR))).toBe('environment.frozen');
  });

  test('is in the event of the grant, with its reason and what it has overridden', async () => {
    const at = await openEnvironments();
    const { freezeId } = await frozen(at);
    const lease = await acquired(at, { ...PROD, action: 'deploy', override }, { caller: OPERATOR });

    const details = await at.store.general.$queryRaw`
      select detail from lease_event where lease_id = ${lease.leaseId}::uuid`;
    expect(details).toEqual([
      {
        detail: {
          holder: 'alice',
          principal: 'token-o',
          action: 'deploy',
          comment: null,
          override: { ...override, freezes: [freezeId] },
        },
      },
    ]);
    expect(await at.freezes.overriddenBy(lease.leaseId)).toEqual([freezeId]);
  });

  test('of what is not frozen is an acquire like any other', async () => {
    const at = await openEnvironments();
    const lease = await acquired(at, { ...PROD, override }, { caller: OPERATOR });

    expect(await at.freezes.overriddenBy(lease.leaseId)).toEqual([]);
    expect(await at.freezes.overriddenBy(randomUUID())).toEqual([]);
  });

  test('takes no environment that somebody holds', async () => {
    const at = await openEnvironments();
    await acquired(at, PROD);
    await frozen(at);

    expect(await deploy(at, { override }, OPERATOR)).toMatchObject({
      outcome: 'held',
      by: 'alice',
    });
  });

  test('is of what is frozen now: a recurring freeze between its windows is not overridden', async () => {
    const at = await openEnvironments();
    await neglected(at, daily(60));

    const lease = await acquired(at, { ...PROD, override }, { caller: OPERATOR });

    expect(await at.freezes.overriddenBy(lease.leaseId)).toEqual([]);
  });

  test('is recorded within a window that nobody has met before', async () => {
    const at = await openEnvironments();
    const freezeId = await neglected(at, daily(-30));

    const lease = await acquired(at, { ...PROD, override }, { caller: OPERATOR });

    expect(await at.freezes.overriddenBy(lease.leaseId)).toEqual([freezeId]);
  });
});
