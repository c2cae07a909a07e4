import { expect, test } from './fixtures/test.ts';
import { actWithReason, untilLive } from './fixtures/grants.ts';

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
    const secret = await dialog.getByRole('textbox', { name: 'Token' }).inputValue();
    expect(secret).toMatch(/^lh_/);

    const read = (): Promise<number> =>
      fetch(`${stack.controller().url}/trpc/keys.list`, {
        headers: { authorization: `Bearer ${secret}` },
      }).then(({ status }) => status);
    expect(await read()).toBe(200);

    await dialog.getByRole('button', { name: 'I have stored it' }).click();
    await expect(page.getByRole('textbox', { name: 'Token' })).toHaveCount(0);
    const row = page.getByRole('row').filter({ hasText: name });
    await row.getByRole('button', { name: `Actions for ${name}` }).click();
    await page.getByRole('menuitem', { name: 'Revoke' }).click();
    await actWithReason(page, { reason: 'Not needed any more', label: 'Revoke token' });

    await expect(row).toContainText('Revoked');
    await expect.poll(read).toBe(401);
  });

  test('nobody but an administrator sees who has access', async ({ pageAs }) => {
    const page = await pageAs('operator');
    await page.goto('/access');

    await expect(page.getByText(/admin/i).first()).toBeVisible();
    await expect(page.getByText('ada.okafor@example.com')).toHaveCount(0);
  });
});
