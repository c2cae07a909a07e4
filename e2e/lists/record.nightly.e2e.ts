import { holdLease, openRoom, tableOf, untilLive } from '../fixtures/grants.ts';
import { expect, test } from '../fixtures/test.ts';

test.describe('what is recorded', () => {
  test('a refused renewal is listed in words, and as JSON at an address of its own', async ({
    pageAs,
    stack,
  }) => {
    const { leaseId, fencingToken, name } = await holdLease(stack, {
      key: 'refused-late',
      holder: 'night-import',
    });
    const { leases } = stack.api('client');
    await leases.release.mutate({ leaseId, fencingToken });
    await leases.heartbeat.mutate({ localTimeMs: 1_000, renewals: [{ leaseId, fencingToken }] });
    const page = await pageAs('operator');
    await page.goto('/events?kinds=renewal_refused&range=1h');

    const row = tableOf(page, 'events').row(name);
    await expect(row).toContainText(
      /renewal by night-import was refused: the grant had been released/i,
    );
    await expect(row).toContainText(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/);
    await expect(
      page.getByRole('status').filter({ hasText: /refused renewals? in/ }),
    ).toBeVisible();
    await row.getByRole('button', { name: /^Details: / }).click();
    const dialog = page.getByRole('dialog');
    await expect(dialog).toContainText('"reason": "released"');
    await expect(page).toHaveURL(/event=\d+\.\d+/);

    await page.goto(page.url().replace(/[?&]kinds=\w+/, '?'));
    await expect(dialog).toContainText(`"leaseId": "${leaseId}"`);
  });

  test('everything that a person did is a click on their name, and a part of a reason finds an act', async ({
    pageAs,
    stack,
  }) => {
    const room = await openRoom(stack, 'explained');
    const reason = `Ticket ${room.name}: Does NOT answer`;
    const { leaseId } = room;
    await stack.api('operator').keys.blockRenewal.mutate({ leaseId, reason });
    const page = await pageAs('operator');
    await page.goto('/audit');
    await untilLive(page);
    await expect(tableOf(page, 'audit').row('Signed in')).toHaveCount(0);

    const box = page.getByLabel('Search the audit');
    await box.fill(`${room.name.toUpperCase()}: does not`);
    await box.press('Enter');
    const row = tableOf(page, 'audit').row(reason);
    await expect(row).toHaveCount(1);
    await page.setViewportSize({ width: 390, height: 844 });
    await expect(row.getByText(reason).filter({ visible: true })).toBeVisible();

    await page.setViewportSize({ width: 1440, height: 900 });
    await row.getByRole('link', { name: /operator/ }).click();
    await expect(page).toHaveURL(/q=actor%3A.*show=all|q=actor:.*show=all/);
    await expect(tableOf(page, 'audit').row(reason)).toHaveCount(1);

    await page.getByRole('button', { name: /^Sign-ins/ }).click();
    await page.getByRole('menuitemradio', { name: 'Only sign-ins' }).click();
    await expect(page).toHaveURL(/show=sign-ins/);
    await page.getByLabel('Clear the search').click();
    await expect(tableOf(page, 'audit').row(stack.people.operator.email).first()).toBeVisible();
    await expect(tableOf(page, 'audit').row('Blocked renewal')).toHaveCount(0);
  });
});
