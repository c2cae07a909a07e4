import { expect, test } from './fixtures/test.ts';
import { untilLive } from './fixtures/grants.ts';

test.describe('access', () => {
  test('a token is made, used by a program, revoked, and refused from then on', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('admin');
    await page.goto('/access?tab=tokens');
    await untilLive(page);
    const name = `script-${String(Date.now())}`;
    await page.getByRole('button', { name: /^(Create|New|Make)\b.*token/ }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel(/^Name/).fill(name);
    await dialog.getByRole('button', { name: /^Create/ }).click();
    const secret = (await dialog.getByText(/^lh_/).first().innerText()).trim();

    const read = (): Promise<number> =>
      fetch(`${stack.controller().url}/trpc/keys.list`, {
        headers: { authorization: `Bearer ${secret}` },
      }).then(({ status }) => status);
    expect(await read()).toBe(200);

    await dialog
      .getByRole('button', { name: /^(Done|Close)/ })
      .last()
      .click();
    await expect(page.getByText(secret)).toHaveCount(0);
    const row = page.getByRole('row').filter({ hasText: name });
    await row.getByRole('button', { name: /Revoke/ }).click();
    const revoking = page.getByRole('dialog');
    const reason = revoking.getByLabel(/^Reason/);
    if ((await reason.count()) > 0) await reason.fill('Not needed any more');
    const typed = revoking.getByLabel(/^To go on, type/);
    if ((await typed.count()) > 0) await typed.fill(name);
    await revoking.getByRole('button', { name: /^Revoke/ }).click();

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
