import { checkSchemes } from '../fixtures/axe.ts';
import { expect, test } from '../fixtures/test.ts';
import { makePerson } from '../fixtures/people.ts';
import { untilLive } from '../fixtures/grants.ts';

test.describe('sign-in', () => {
  test('leads to the requested page, and signing out ends access', async ({ page, stack }) => {
    const { viewer } = stack.people;
    await page.goto('/keys?q=standup');
    await expect(page).toHaveURL(/\/sign-in\?next=/);
    await page.getByLabel('E-mail').fill(viewer.email);
    await page.getByLabel(/^Password/).fill(viewer.password);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();

    await expect(page.getByRole('heading', { level: 1, name: 'Keys' })).toBeVisible();
    await expect(page).toHaveURL(/\/keys\?q=standup$/);

    // Signing in loads the whole page: a click before its code runs does nothing.
    await untilLive(page);
    await page.getByRole('button', { name: /^Account of/ }).click();
    await page.getByRole('menuitem', { name: 'Sign out', exact: true }).click();
    await expect(page).toHaveURL(/\/sign-in/);
    await page.goto('/keys');
    await expect(page).toHaveURL(/\/sign-in/);
  });

  test('a wrong password does not reveal whether the e-mail exists', async ({ page, stack }) => {
    const said: string[] = [];
    for (const email of [stack.people.viewer.email, 'nobody@example.com']) {
      await page.goto('/sign-in');
      await page.getByLabel('E-mail').fill(email);
      await page.getByLabel(/^Password/).fill('not-the-password-at-all');
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      said.push(await page.getByRole('alert').filter({ hasText: /./ }).innerText());
    }

    expect(said[0]).toMatch(/wrong|incorrect|not right/i);
    expect(said[1]).toBe(said[0]);
    await expect(page.getByLabel(/^Password/)).toHaveValue('');
  });

  test('too many wrong passwords lock the account, and the page shows for how long', async ({
    page,
    stack,
  }) => {
    const person = {
      email: 'lena.lock@example.com',
      name: 'Lena Lock',
      password: 'remembered-too-late',
    };
    await makePerson(
      stack.controller().url,
      { admin: stack.credentials.admin, origin: stack.consoleUrl },
      { ...person, role: 'viewer' },
    );
    await expect(async () => {
      const refusal = await page.request.post('/api/auth/sign-in/email', {
        data: { email: person.email, password: 'a wrong password' },
        headers: { origin: stack.consoleUrl },
      });
      expect(await refusal.json()).toMatchObject({ code: 'ACCOUNT_LOCKED' });
    }).toPass({ intervals: [0] });

    await page.goto('/sign-in');
    await page.getByLabel('E-mail').fill(person.email);
    await page.getByLabel(/^Password/).fill(person.password);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();

    await expect(page.getByRole('alert').filter({ hasText: /locked/i })).toContainText(
      /minute|until|\d{2}:\d{2}/,
    );
  });

  test('a session that ends in the middle of a dialog keeps what was typed', async ({
    pageAs,
    seeded,
    stack,
  }) => {
    const page = await pageAs('operator');
    const { namespace, name } = seeded.keys.busy;
    await page.goto(`/keys/detail?${new URLSearchParams({ namespace, name }).toString()}`);
    await untilLive(page);
    await page.getByRole('button', { name: 'Block renewal', exact: true }).click();
    const reason = page.getByRole('dialog').getByLabel(/^Reason/);
    await reason.fill('Half of a sentence that must not be lost');

    await page.context().clearCookies();
    await page.getByRole('dialog').getByRole('button', { name: 'Block renewal' }).click();

    const ended = page.getByRole('dialog', { name: 'Your session has ended' });
    await ended.waitFor();
    const found: string[] = [];
    await checkSchemes(page, 'an ended session', found);
    expect(found).toEqual([]);
    await ended.getByLabel(/^Password/).fill(stack.people.operator.password);
    await ended.getByRole('button', { name: 'Sign in', exact: true }).click();
    await expect(ended).toBeHidden();
    await expect(reason).toHaveValue('Half of a sentence that must not be lost');
    await expect(page.getByText('auth.required')).toHaveCount(0);
  });

  test('an invitation sets a password and signs in', async ({ page, stack }) => {
    const { path } = await stack.api('admin').people.invite.mutate({
      email: 'new.colleague@example.com',
      role: 'viewer',
    });
    await page.goto(path);
    await page
      .getByLabel(/^Password/)
      .first()
      .fill('a-password-of-my-own');
    await page
      .getByRole('button', { name: /password|join|accept|sign in/i })
      .last()
      .click();

    await expect(page.getByRole('heading', { level: 1, name: 'Overview' })).toBeVisible();
  });
});
