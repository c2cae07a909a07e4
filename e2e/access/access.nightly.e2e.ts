import { checkSchemes } from '../fixtures/axe.ts';
import { actWithReason, untilLive } from '../fixtures/grants.ts';
import { makePerson } from '../fixtures/people.ts';
import { expect, signIn, test } from '../fixtures/test.ts';

test.describe('access', () => {
  test('a token is made, used by a program, revoked, and refused from then on', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('admin');
    await page.goto('/access?tab=tokens');
    await untilLive(page);
    const name = `script-${String(Date.now())}`;
    await page
      .getByRole('button', { name: /token$/ })
      .first()
      .click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill(name);
    await dialog.getByRole('button', { name: 'Create token' }).click();
    const secret = await dialog.getByRole('textbox', { name: 'Token', exact: true }).inputValue();
    expect(secret).toMatch(/^lh_/);
    const found: string[] = [];
    await checkSchemes(page, 'a new token, shown once', found);
    expect(found).toEqual([]);

    const read = (): Promise<number> =>
      fetch(`${stack.controller().url}/trpc/keys.list`, {
        headers: { authorization: `Bearer ${secret}` },
      }).then(({ status }) => status);
    expect(await read()).toBe(200);

    await dialog.getByRole('button', { name: 'I have stored it' }).click();
    await expect(page.getByRole('textbox', { name: 'Token', exact: true })).toHaveCount(0);
    const row = page.getByRole('row').filter({ hasText: name });
    await row.getByRole('button', { name: `Actions for ${name}` }).click();
    await page.getByRole('menuitem', { name: 'Revoke' }).click();
    await actWithReason(page, { reason: 'Not needed any more', label: 'Revoke token' });

    await expect(row).toContainText('Revoked');
    await expect.poll(read).toBe(401);
  });

  test('administrators read the configuration in effect, without secrets; operators do not', async ({
    pageAs,
  }) => {
    const page = await pageAs('admin');
    await page.goto('/configuration');
    await untilLive(page);
    const row = (name: string) => page.getByRole('row').filter({ hasText: name });
    await expect(row('LEASEHOLD_DATACENTER').first()).toContainText(/fra\s*set/u);
    await expect(row('LEASEHOLD_PRESET').first()).toContainText('fast');
    await expect(page.locator('main')).not.toContainText(/:\/\/[^/@\s]+:[^*@\s]+@/u);

    const other = await pageAs('operator');
    await other.goto('/configuration');
    await expect(
      other.getByText(/Administrators read how controllers are configured/),
    ).toBeVisible();
  });

  test('the details of a token show its own limits, and those of its role', async ({
    pageAs,
    stack,
  }) => {
    const name = `limited-${String(Date.now())}`;
    await stack.api('admin').tokens.create.mutate({ name, role: 'client', limits: { waiters: 7 } });
    const page = await pageAs('admin');
    await page.goto('/access?tab=tokens');
    await untilLive(page);

    await page.getByRole('button', { name: `Actions for ${name}` }).click();
    await page.getByRole('menuitem', { name: 'Show limits' }).click();

    const limits = page.getByRole('dialog').getByRole('region', { name: 'Fair-use limits' });
    const limit = (of: string) => limits.getByRole('row').filter({ hasText: of });
    await expect(limit('waiters')).toHaveText(/7the token$/);
    await expect(limit('callsPerSecond')).toHaveText(/its role$/);
  });

  test('a forgotten password is replaced through a link, which ends the earlier sessions', async ({
    browser,
    pageAs,
    stack,
  }) => {
    const person = {
      email: 'forgetful@example.com',
      name: 'Fay Forgetful',
      password: 'soon-to-be-forgotten',
    };
    await makePerson(
      stack.controller().url,
      { admin: stack.credentials.admin, origin: stack.consoleUrl },
      { ...person, role: 'viewer' },
    );
    const before = await browser.newPage({ baseURL: stack.consoleUrl });
    await signIn(before, person);
    const admin = await pageAs('admin');
    await admin.goto('/access?tab=people');
    await untilLive(admin);
    await admin.getByRole('button', { name: `Actions for ${person.email}` }).click();
    await admin.getByRole('menuitem', { name: 'Reset password' }).click();
    const dialog = admin.getByRole('dialog');
    await dialog.getByLabel('Reason').fill('Forgot it');
    await dialog.getByRole('button', { name: 'Create link' }).click();
    const link = await dialog.getByRole('textbox', { name: /link/i }).inputValue();
    const found: string[] = [];
    await checkSchemes(admin, 'a link, shown once', found);
    expect(found).toEqual([]);

    const after = await browser.newPage();
    await after.goto(link);
    await after.getByLabel(/^New password/).fill('one-that-will-be-kept');
    await after.getByRole('button', { name: 'Set password and sign in' }).click();
    await expect(after.getByRole('heading', { level: 1, name: 'Overview' })).toBeVisible();
    await before.reload();
    await expect(before).toHaveURL(/\/sign-in/);
    await before.context().close();
    await after.context().close();

    // It works once: a person who finds the link later cannot use it.
    const late = await browser.newPage();
    await late.goto(link);
    await late.getByLabel(/^New password/).fill('one-of-a-stranger');
    await late.getByRole('button', { name: 'Set password and sign in' }).click();
    await expect(late.getByText(/^This link has been used/)).toBeVisible();
    await late.context().close();
  });

  test('an operator who is limited to namespaces is told what concerns all of them', async ({
    browser,
    stack,
  }) => {
    const person = {
      email: 'lim.ited@example.com',
      name: 'Lim Ited',
      password: 'sees-some-of-the-rooms',
    };
    await makePerson(
      stack.controller().url,
      { admin: stack.credentials.admin, origin: stack.consoleUrl },
      { ...person, role: 'operator' },
    );
    // As an identity provider would say it.
    await stack.sql.query(`update person set namespaces = '{rooms}' where email = $1`, [
      person.email,
    ]);
    const page = await browser.newPage({ baseURL: stack.consoleUrl });
    await signIn(page, person);
    for (const path of ['/', '/drones', '/drones/detail?id=any', '/audit']) {
      await page.goto(path);
      await expect(page.getByRole('heading', { name: /limited to some/ })).toBeVisible();
    }
    await page.goto('/keys?q=namespace:rooms');
    await expect(page.getByRole('button', { name: 'Stop all' })).toHaveAttribute(
      'aria-disabled',
      'true',
    );
    await page.context().close();
  });

  test('nobody but an administrator sees who has access', async ({ pageAs }) => {
    const page = await pageAs('operator');
    await page.goto('/access');

    await expect(page.getByText(/admin/i).first()).toBeVisible();
    await expect(page.getByText('ada.okafor@example.com')).toHaveCount(0);
  });
});
