import { actWithReason, holdLease, openRoom, untilLive } from '../fixtures/grants.ts';
import { expect, signIn, test } from '../fixtures/test.ts';

test.describe('what is typed, and by whom', () => {
  test('a search that is typed with pauses keeps its spaces', async ({ pageAs }) => {
    const page = await pageAs('viewer');
    await page.goto('/keys');
    await untilLive(page);
    const search = page.getByLabel('Search keys');
    await search.pressSequentially('tag:eu ');
    await expect(page).toHaveURL(/q=tag:eu/);
    // At once, because a pause between two letters would be a step of its own in the history.
    await page.keyboard.insertText('phase:held');

    await expect(search).toHaveValue('tag:eu phase:held');
    await expect(page).toHaveURL(/phase:held/);
    await page.goBack();
    await expect(search).toHaveValue('tag:eu');
    await page.goForward();
    await expect(search).toHaveValue('tag:eu phase:held');
  });

  test('a name with spaces of its own can be typed, as it is shown', async ({ pageAs, stack }) => {
    const lease = await holdLease(stack, { key: ' two  spaces', holder: 'somebody' });
    const page = await pageAs('operator');
    await page.goto(lease.path);
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Force: end it now').click();

    const shown = `${lease.namespace}/${lease.name}`;
    await expect(dialog.getByText(shown, { exact: true })).toHaveCSS(
      'white-space-collapse',
      'break-spaces',
    );
    await dialog.getByLabel(/^Reason/).fill('Its name is odd');
    await dialog.getByLabel(/^To confirm, type/).fill(shown);
    await expect(dialog.getByRole('button', { name: 'Revoke by force' })).toBeEnabled();
  });

  test('a name with invisible characters is marked, shown escaped, and confirmed as shown', async ({
    pageAs,
    stack,
  }) => {
    const lease = await holdLease(stack, { key: 'pay\u202eroll', holder: 'some\u200bbody' });
    const page = await pageAs('operator');
    await page.goto(lease.path);
    const mark = page.getByRole('img', { name: /invisible characters/ });
    const heading = page.getByRole('heading', { level: 1 });
    await expect(heading).toContainText('pay\\u{202e}roll');
    await expect(heading.getByTitle('U+202E, right-to-left override')).toBeVisible();
    await expect(mark.first()).toBeVisible();
    await expect(page.getByText('some\\u{200b}body').first()).toBeVisible();

    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Revoke e2e.jobs/pay\\u{202e}roll' });
    await dialog.getByText('Force: end it now').click();
    await dialog.getByLabel(/^Reason/).fill('Its name is odd');
    const typed = dialog.getByLabel(/^To confirm, type/);
    await typed.fill('e2e.jobs/payroll');
    await expect(typed).toHaveAccessibleDescription(/It differs at character 13/);
    await typed.fill('e2e.jobs/pay\\u{202e}roll');
    await expect(dialog.getByRole('button', { name: 'Revoke by force' })).toBeEnabled();
  });

  test('a dialog that is opened again does not show the last refusal', async ({
    pageAs,
    stack,
  }) => {
    const lease = await holdLease(stack, { key: 'refused-before', holder: 'somebody' });
    const page = await pageAs('operator');
    await page.goto(lease.path);
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    await page.route('**/trpc/leases.revoke**', (route) => route.abort());
    await actWithReason(page, { reason: 'Nobody gets it', label: 'Revoke' });
    await expect(dialog.getByRole('alert')).toBeVisible();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await expect(dialog).toHaveCount(0);

    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    await expect(dialog.getByLabel(/^Reason/)).toBeVisible();
    await expect(dialog.getByRole('alert')).toHaveCount(0);
  });

  test('a revoke is followed even when its dialog was closed before the answer', async ({
    pageAs,
    stack,
  }) => {
    const lease = await holdLease(stack, { key: 'answered-late', holder: 'somebody' });
    const page = await pageAs('operator');
    await page.goto(lease.path);
    await untilLive(page);
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    stack.proxy.delay(0, 1_500);
    try {
      await actWithReason(page, { reason: 'It answers late', label: 'Revoke' });
      await page.keyboard.press('Escape');
      await page
        .getByRole('navigation', { name: 'Pages' })
        .getByRole('link', { name: 'Drones' })
        .click();
      await expect(
        page.getByRole('region', { name: 'Revocations that you made' }).getByText(lease.name),
      ).toBeVisible();
    } finally {
      stack.proxy.heal();
    }
  });

  test('an action that one person follows is not shown to the next person in the same tab', async ({
    pageAs,
    stack,
  }) => {
    const room = await openRoom(stack, 'followed-by-one');
    const page = await pageAs('operator');
    await page.goto(room.path);
    await untilLive(page);
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    await actWithReason(page, { reason: 'To be followed', label: 'Revoke' });
    const banners = page.getByRole('region', { name: 'Revocations that you made' });
    await expect(banners.getByText(/^Stopped/).first()).toBeVisible();

    await page.context().clearCookies();
    await signIn(page, stack.people.admin);
    await page.goto(room.path);
    await expect(page.getByText('Free').first()).toBeVisible();
    await untilLive(page);
    await expect(banners).toHaveCount(0);
    await page.context().clearCookies();
    await signIn(page, stack.people.operator);
    await expect(banners).toBeVisible();
  });
});
