import { expect, test } from 'vitest';
import { openKernel } from '../../../testing/kernel-fixture.ts';
import { isAdminSignIn } from './admin-sign-in.ts';
import { ensureFirstAdmin, makeAdmin } from './first-admin.ts';

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
