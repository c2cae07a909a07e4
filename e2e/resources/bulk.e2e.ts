import { randomUUID } from 'node:crypto';
import { holdLease, tableOf, untilLive } from '../fixtures/grants.ts';
import { expect, test } from '../fixtures/test.ts';

/**
 * A bulk action carries out four acts at a time, of which each gives up after two seconds: there are enough
 * that some are left when a slow machine comes to the abort.
 */
const EIGHT_TIMES_THE_LANES = 32;

test.describe('bulk actions', () => {
  test('two keys are revoked with fewer than twelve key presses, and nothing moves', async ({
    pageAs,
    stack,
  }) => {
    const stem = `typed-${randomUUID().slice(0, 6)}`;
    for (const key of [`${stem}-a`, `${stem}-b`]) await holdLease(stack, { key, holder: 'worker' });
    const page = await pageAs('operator');
    await page.goto(`/leases?q=${stem}`);
    await untilLive(page);
    const { table } = tableOf(page, 'leases');
    await expect(table.locator('tr[data-row]')).toHaveCount(2);
    const top = (await table.boundingBox())?.y;
    let presses = 0;
    const press = async (key: string): Promise<void> => {
      presses += 1;
      await page.keyboard.press(key);
    };

    for (const key of ['j', 'x', 'j', 'x']) await press(key);
    await expect(page.getByRole('region', { name: 'Selection' })).toContainText(
      '2 leases selected',
    );
    await press('a');
    await press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Revoke 2 leases' });
    await expect(dialog.getByLabel(/^Reason/u)).toBeFocused();
    // Nothing is started before it is known how many of them are held.
    await expect(dialog.getByRole('status')).toHaveText('All 2 selected are held.');
    await press('.');
    await press('Tab');
    await press('2');
    await press('Enter');

    await expect(page.getByRole('region', { name: 'Bulk action' })).toContainText('2 of 2 revoked');
    expect(presses).toBeLessThan(12);
    expect((await table.boundingBox())?.y).toBe(top);
  });

  test('show and count what was selected, are followed to their end, and name what failed', async ({
    pageAs,
    stack,
  }) => {
    const stem = `bulk-${randomUUID().slice(0, 6)}`;
    const leases = [];
    for (const key of [`${stem}-a`, `${stem}-b`, `${stem}-c`]) {
      leases.push(await holdLease(stack, { key, holder: 'batch-worker' }));
    }
    const page = await pageAs('operator');
    await page.goto('/leases?q=namespace:e2e.jobs');
    await untilLive(page);
    const { row } = tableOf(page, 'leases');
    for (const { name } of leases) await row(name).getByRole('checkbox').check();
    const selection = page.getByRole('region', { name: 'Selection' });
    await expect(selection).toContainText('3 leases selected');

    // One ends while it is selected: the selection stays as it was, and the action reports it as ended.
    const [first] = leases;
    if (first === undefined) throw new Error('nothing is held');
    const { leaseId, fencingToken } = first;
    await stack.api('client').leases.release.mutate({ leaseId, fencingToken });
    await expect(selection).toContainText('3 leases selected');

    await selection.getByRole('button', { name: 'Revoke', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Revoke 2 leases' });
    await dialog.getByText('Force: end them now').click();
    for (const { name } of leases) await expect(dialog).toContainText(name);
    await expect(dialog).toContainText(
      '2 of 3 selected are held. Grants that have ended are skipped.',
    );
    await expect(dialog).toContainText(/All holders stop within .+ at worst/);
    await dialog.getByLabel(/^Reason/).fill('The batch is broken');
    const act = dialog.getByRole('button', { name: 'Revoke 2 leases' });
    const typed = dialog.getByLabel(/^To confirm, type/);
    await expect(act).toBeDisabled();
    await typed.fill('3');
    await expect(typed).toHaveAccessibleDescription('That is not 2.');
    await expect(act).toBeDisabled();
    await typed.fill('2');
    // Another one ends between the count and the act: it is reported, and nothing is done to it.
    const [, second] = leases;
    if (second === undefined) throw new Error('only one is held');
    await stack.api('client').leases.release.mutate({
      leaseId: second.leaseId,
      fencingToken: second.fencingToken,
    });
    await act.click();

    const panel = page.getByRole('region', { name: 'Bulk action' });
    await expect(panel).toContainText('1 of 2 revoked, 1 failed.');
    await expect(panel.getByRole('status')).toHaveText(
      /^stopping, .* Waiting for 1 holder to stop, within .+ at worst\.$/,
    );
    await expect(panel.getByRole('listitem')).toHaveText(`e2e.jobs/${second.name}had ended before`);
    for (const { name } of leases.slice(1)) {
      const found = await stack
        .api('viewer')
        .leases.get.query({ namespace: ['e2e', 'jobs'], key: name });
      expect(found?.phase).not.toBe('held');
    }
  });

  test('one that is aborted begins no further act, and what it had not begun stays held', async ({
    pageAs,
    stack,
  }) => {
    const stem = `aborted-${randomUUID().slice(0, 6)}`;
    const keys = Array.from(
      { length: EIGHT_TIMES_THE_LANES },
      (_, index) => `${stem}-${String(index)}`,
    );
    for (const key of keys) await holdLease(stack, { key, holder: 'batch-worker' });
    const page = await pageAs('operator');
    await page.goto(`/leases?q=namespace:e2e.jobs ${stem}`);
    await untilLive(page);
    await page.getByRole('checkbox', { name: 'Select all on this page' }).check();
    const selection = page.getByRole('region', { name: 'Selection' });
    await selection.getByRole('button', { name: 'Revoke', exact: true }).click();
    const title = `Revoke ${String(keys.length)} leases`;
    const dialog = page.getByRole('dialog', { name: title });
    await dialog.getByText('Force: end them now').click();
    await dialog.getByLabel(/^Reason/).fill('The wrong batch');
    await dialog.getByLabel(/^To confirm, type/).fill(String(keys.length));

    // The acts that are under way wait for their rows: none can end before the abort.
    const locked = await stack.sql.connect();
    const panel = page.getByRole('region', { name: 'Bulk action' });
    try {
      await locked.query('begin');
      const rows = 'select from leasehold.lease where starts_with(name, $1) for no key update';
      await locked.query(rows, [stem]);
      await dialog.getByRole('button', { name: title }).click();
      await panel.getByRole('button', { name: 'Abort' }).click();
      const aborted = `select from leasehold.bulk where reason = $1 and state = 'aborted'`;
      await expect
        .poll(async () => (await stack.sql.query(aborted, ['The wrong batch'])).rowCount)
        .toBe(1);
    } finally {
      await locked.query('rollback');
      locked.release();
    }

    await expect(panel.getByRole('status')).toHaveText(
      new RegExp(`^aborted, \\d+ of ${String(keys.length)} revoked`, 'u'),
    );
    const { items } = await stack
      .api('viewer')
      .leases.list.query({ namespace: ['e2e', 'jobs'], prefix: stem, phase: 'held' });
    expect(items.length).toBeGreaterThanOrEqual(keys.length / 2);
  });

  test('all of a namespace is stopped by keys alone, and is one entry of the audit', async ({
    pageAs,
    stack,
  }) => {
    const stem = `all-${randomUUID().slice(0, 6)}`;
    const count = 105;
    const client = stack.api('client');
    for (let at = 0; at < count; at += 1) {
      await client.leases.acquire.mutate({
        namespace: ['e2e', stem],
        key: `job-${String(at).padStart(3, '0')}`,
        holder: 'h',
        ttlMs: 600_000,
        localTimeMs: 1_000,
        idempotencyKey: randomUUID(),
      });
    }
    const page = await pageAs('operator');
    await page.goto('/');
    await untilLive(page);
    // In one go: the first of the two is remembered only for a moment.
    await Promise.all([page.keyboard.press('g'), page.keyboard.press('l')]);
    await page.waitForURL('**/leases');
    await page.goto(`/leases?q=namespace:e2e.${stem}`);
    await untilLive(page);

    const rows = tableOf(page, 'leases').table.getByRole('checkbox', { name: /^Select e2e/u });
    await rows.nth(1).click();
    await rows.nth(4).click({ modifiers: ['Shift'] });
    const selection = page.getByRole('region', { name: 'Selection' });
    await expect(selection).toContainText('4 leases selected');
    await selection.getByRole('button', { name: `Select all ${String(count)} that match` }).click();
    await expect(selection).toContainText(`${String(count)} leases selected`);
    await selection.getByRole('button', { name: 'Clear' }).click();

    await page.getByRole('button', { name: 'Stop all' }).click();
    const dialog = page.getByRole('dialog', { name: `Revoke ${String(count)} leases` });
    await expect(dialog.getByRole('status')).toHaveText(
      `All ${String(count)} selected are held. The search is of the namespace e2e.${stem}.`,
    );
    await dialog.getByLabel(/^Reason/u).fill('The namespace is broken');
    await dialog.getByLabel(/^To confirm, type/u).fill(String(count));
    await dialog.getByLabel(/^Reason/u).press('Control+Enter');
    await expect(page.getByRole('region', { name: 'Bulk action' })).toContainText(
      `${String(count)} of ${String(count)} revoked`,
    );
    const { items } = await stack
      .api('admin')
      .audit.list.query({ text: 'The namespace is broken' });
    expect(items).toMatchObject([{ action: 'bulk.start', detail: { total: count } }]);
  });
});
