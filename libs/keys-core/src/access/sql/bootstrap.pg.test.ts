import { describe, expect, test } from 'vitest';
import type { Sql } from '../../postgres/sql.ts';
import { openKernel } from '../../testing/kernel-fixture.ts';
import { verifyPassword } from './accounts.ts';
import { ensureFirstAdmin, isAdminSignIn, makeAdmin } from './bootstrap.ts';
import { countSignInTry, SIGN_IN_FAILURES_MAX } from './sign-in-failures.ts';

async function hashOf(sql: Sql<'general'>, email: string): Promise<string> {
  const rows = await sql.$queryRaw<{ password: string }[]>`
    select a.password
    from person_account a join person p on p.id = a.person_id
    where p.email = ${email} and a.provider_id = 'credential'`;
  return rows[0]?.password ?? '';
}

describe('ensureFirstAdmin', () => {
  test('makes one administrator whose password opens the account, and no second one', async () => {
    const { store } = await openKernel();

    const first = await ensureFirstAdmin(store, { email: 'Admin@Leasehold.local' });
    const second = await ensureFirstAdmin(store, { email: 'other@leasehold.local' });

    expect(first?.email).toBe('admin@leasehold.local');
    expect(second).toBeUndefined();
    const hash = await hashOf(store.general, 'admin@leasehold.local');
    expect(await verifyPassword(hash, first?.password ?? '')).toBe(true);
    expect(await verifyPassword(hash, 'something else')).toBe(false);
  });

  test('makes only one administrator when it is called several times at once', async () => {
    const { store } = await openKernel();

    const made = await Promise.all(
      Array.from({ length: 4 }, () => ensureFirstAdmin(store, { email: 'admin@leasehold.local' })),
    );

    expect(made.filter((one) => one !== undefined)).toHaveLength(1);
  });
});

test('the password is stored before the first administrator exists, or nobody is made', async () => {
  const { store } = await openKernel();
  const first = { email: 'admin@leasehold.local' };
  const kept: unknown[] = [];

  await expect(
    ensureFirstAdmin(store, first, () => {
      throw new Error('the disk is full');
    }),
  ).rejects.toThrow('the disk is full');
  const made = await ensureFirstAdmin(store, first, (signIn) => kept.push(signIn));
  await ensureFirstAdmin(store, first, (signIn) => kept.push(signIn));

  expect(made).toBeDefined();
  expect(kept).toEqual([made]);
});

describe('makeAdmin', () => {
  test('lets a locked-out, disabled and demoted person in again', async () => {
    const { store } = await openKernel();
    const email = 'ada@example.com';
    const triedAt = { email, from: { address: '192.0.2.1' } };
    const first = await makeAdmin(store, { email, password: 'the first password' });
    await store.general.$queryRaw`
      update person set disabled_at = clock_timestamp(), role = 'viewer'
      where email = ${email} returning id::text`;
    for (let i = 0; i < SIGN_IN_FAILURES_MAX; i += 1) await countSignInTry(store.general, triedAt);
    expect(await countSignInTry(store.general, triedAt)).toMatchObject({ outcome: 'locked' });

    const again = await makeAdmin(store, {
      email: 'ADA@example.com',
      password: 'another password',
    });

    expect([first.isNew, again]).toEqual([true, { personId: first.personId, isNew: false }]);
    expect(await verifyPassword(await hashOf(store.general, email), 'another password')).toBe(true);
    expect(await countSignInTry(store.general, triedAt)).toMatchObject({ outcome: 'allowed' });
    const people = await store.general.$queryRaw`
      select p.role, p.disabled_at as "disabledAt" from person p where p.email = ${email}`;
    expect(people).toEqual([{ role: 'admin', disabledAt: null }]);
  });
});

test('reports whether a kept password still opens the console', async () => {
  const { store } = await openKernel();
  const kept = (await ensureFirstAdmin(store, { email: 'admin@leasehold.local' })) ?? {
    email: '',
    password: '',
  };
  const judge = (): Promise<boolean> => isAdminSignIn(store.general, kept);

  expect(await judge()).toBe(true);
  expect(await isAdminSignIn(store.general, { ...kept, password: 'another one' })).toBe(false);
  expect(await isAdminSignIn(store.general, { ...kept, email: 'nobody@x' })).toBe(false);

  await store.general.$queryRaw`update person set role = 'viewer' returning id::text`;
  expect(await judge()).toBe(false);

  await makeAdmin(store, { email: kept.email, password: 'chosen by a person' });
  expect(await judge()).toBe(false);
});
