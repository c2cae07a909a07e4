import { randomUUID } from 'node:crypto';
import { failCallback } from '@leasehold/testing/stack';
import { checkSchemes } from '../fixtures/axe.ts';
import { holdLease, tableOf, untilLive } from '../fixtures/grants.ts';
import { expect, test } from '../fixtures/test.ts';

test.describe('leases and environments', () => {
  test('each release moves the next waiting caller to the front of the line', async ({
    pageAs,
    stack,
  }) => {
    const key = `line-${randomUUID().slice(0, 6)}`;
    const lease = await holdLease(stack, { key, holder: 'first-worker' });
    const waiting = ['second-worker', 'third-worker'].map((holder, place) =>
      joinLine(stack, { key, holder, place }),
    );
    await Promise.all(waiting.map(({ joined }) => joined));
    const page = await pageAs('viewer');
    await page.goto(`${lease.path}&tab=waiters`);
    const rows = tableOf(page, 'waiters').table.locator('tr[data-row]');
    await expect(rows).toHaveCount(2);
    await expect(rows.first()).toContainText('second-worker');

    const { leaseId, fencingToken } = lease;
    await stack.api('client').leases.release.mutate({ leaseId, fencingToken });
    await waiting[0]?.granted;
    await expect(rows).toHaveCount(1);
    await expect(rows.first()).toContainText('third-worker');
    await expect(page.getByText('second-worker').first()).toBeVisible();

    const second = await waiting[0]?.granted;
    if (second !== undefined) await stack.api('client').leases.release.mutate(second);
    await waiting[1]?.granted;
    await expect(rows).toHaveCount(0);
  });

  test('the waits of all leases show who waits for whom, in order', async ({ pageAs, seeded }) => {
    const page = await pageAs('viewer');
    await page.goto('/leases?tab=waits');
    await untilLive(page);

    const table = page.getByRole('region', { name: 'Who is waiting for whom' });
    await expect(table.getByRole('link', { name: seeded.leases.queued.name })).toBeVisible();
    await expect(table.getByRole('rowgroup').filter({ hasText: 'settlement-eu' })).toContainText(
      '6 waiting',
    );

    await page.goto('/leases');
    await untilLive(page);
    const list = tableOf(page, 'leases');
    const outOfSight = (element: HTMLElement | SVGElement) =>
      element.scrollWidth - element.clientWidth;
    expect(await list.table.evaluate(outOfSight)).toBe(0);
    const holder = list.row('customer-acme').locator('td [data-holder]:visible');
    expect(await holder.evaluate(outOfSight)).toBe(0);
  });

  test('the overview shows what was waited for most and leases that are taken in opposite orders, and leads to why', async ({
    pageAs,
    stack,
  }) => {
    const [one, other] = ['a', 'b'].map((letter) => `order-${letter}-${unique()}`) as [
      string,
      string,
    ];
    for (const [holder, order] of [
      ['ann-worker', [one, other]],
      ['bob-worker', [other, one]],
    ] as const) {
      const held = [];
      for (const key of order) held.push(await holdLease(stack, { key, holder }));
      for (const { leaseId, fencingToken } of held) {
        await stack.api('client').leases.release.mutate({ leaseId, fencingToken });
      }
    }
    const lease = await holdLease(stack, { key: one, holder: 'slow-worker' });
    const waiting = joinLine(stack, { key: one, holder: 'late-worker', place: 0 });
    await waiting.joined;
    const page = await pageAs('viewer');
    await page.goto('/');
    await untilLive(page);

    const panel = page.getByRole('region', { name: 'Contention', exact: true });
    const warning = panel.getByRole('status').filter({ hasText: one });
    await expect(warning).toContainText(
      `ann-worker took e2e.jobs/${other} while holding e2e.jobs/${one}`,
    );
    await expect(warning).toContainText(
      `bob-worker took e2e.jobs/${one} while holding e2e.jobs/${other}`,
    );
    await expect(panel.getByRole('region', { name: 'What was waited for most' })).toBeVisible();
    await warning.getByRole('link', { name: one }).click();
    await page.getByRole('tab', { name: 'Why' }).click();

    const blockers = page.getByRole('region', { name: 'Who made others wait' });
    await expect(blockers.getByRole('row').filter({ hasText: 'slow-worker' })).toBeVisible();
    await expect(page.getByRole('status').filter({ hasText: other })).toBeVisible();
    const { leaseId, fencingToken } = lease;
    await stack.api('client').leases.release.mutate({ leaseId, fencingToken });
    await waiting.granted;
  });

  test('a callback that fails is an alarm on the overview, which leads to its lease, its tries and its error', async ({
    pageAs,
    stack,
  }) => {
    const key = `broken-${randomUUID().slice(0, 6)}`;
    const error = 'no account <b>4711</b>';
    await failCallback(stack.databaseUrl, { namespace: ['e2e', 'calls'], key, error });
    const page = await pageAs('viewer');
    await page.goto('/');
    await untilLive(page);
    const figure = page.getByRole('group', { name: 'Failing callbacks' }).getByRole('link');
    await expect(figure).toHaveAccessibleName('1 failing callback');

    await page.getByRole('link', { name: '1 callback of expired leases failing' }).click();

    const row = tableOf(page, 'failing callbacks').row(key);
    await expect(row.getByRole('cell').nth(2)).toHaveText('1');
    await expect(row).toContainText(error);
    await row.getByRole('link', { name: key }).click();
    await expect(page.getByRole('heading', { level: 1, name: key })).toBeVisible();
  });

  test('who held a lease at a given time is answered in three steps, and kept in the address', async ({
    pageAs,
    stack,
  }) => {
    const lease = await holdLease(stack, { key: `past-${unique()}`, holder: 'night-worker' });
    const { name, leaseId, fencingToken } = lease;
    await stack.api('client').leases.release.mutate({ leaseId, fencingToken });
    await holdLease(stack, { key: name, holder: 'day-worker' });
    const history = await stack.api('viewer').leases.history.query({ namespace: 'e2e.jobs', name });
    const [first, released] = history.items.toReversed();
    const page = await pageAs('viewer', { viewport: { width: 390, height: 844 } });
    await page.goto('/');
    await untilLive(page);

    await page.keyboard.press('Control+k');
    await expect(page.getByRole('dialog').getByLabel('Go to')).toBeFocused();
    await page.keyboard.type(name);
    await page.keyboard.press('Enter');
    const asked = page.getByRole('region', { name: 'Who held it at a moment' });
    const field = asked.getByLabel('Who held it at …?');
    // A line for the question and one for the field, where both are not beside each other.
    expect((await asked.boundingBox())?.height).toBeLessThan(72);
    await field.click();
    await page.keyboard.type(String(first?.at));
    await page.keyboard.press('Enter');

    await expect(asked.getByRole('status')).toContainText('Held by night-worker');
    await expect(asked).toContainText(fencingToken);
    await expect(asked).toContainText(/Ended\s*Released/);
    const found: string[] = [];
    await checkSchemes(page, 'who held it', found);
    expect(found).toEqual([]);
    await field.fill('2001-02-03 04:05');
    await field.press('Enter');
    await expect(asked.getByRole('status')).toContainText('The oldest moment that is kept is 20');
    await page.goBack();
    await expect(asked.getByRole('status')).toContainText('Held by night-worker');
    await page.reload();
    await expect(field).toHaveValue(textOf(first?.at));
    await expect(asked.getByRole('status')).toContainText('Held by night-worker');
    await page.goForward();
    await expect(field).toHaveValue('2001-02-03 04:05:00');

    await field.fill('half past three');
    await field.press('Enter');
    await expect(field).toHaveAccessibleDescription(/Type a time of today, such as 03:12/);
    await field.fill('2999-01-01 00:00');
    await field.press('Enter');
    await expect(field).toHaveAccessibleDescription(/has not come yet/);
    await page.goto(`${lease.path}&at=${String(released?.at)}`);
    await expect(asked).toContainText('night-worker');
  });

  test('a moment is picked on the timeline, by mouse and by keyboard, also of a use that expired', async ({
    pageAs,
    stack,
  }) => {
    const environment = `past-${unique()}`;
    const use = { environment, action: 'deploy', localTimeMs: 0, durationMs: SHORT_TTL_MS };
    const acquire = async (holder: string): Promise<string> =>
      (await stack.api('client').environments.tryAcquire.mutate({ ...use, holder })).outcome;
    await acquire('ci@1');
    await expect.poll(() => acquire('ci@2')).toBe('granted');
    const page = await pageAs('viewer');
    await page.goto(`/environments/detail?namespace=&name=${environment}`);
    await untilLive(page);
    const bars = tableOf(page, 'grants').table.getByRole('button', { name: /^Who held it in/ });
    const asked = page.getByRole('region', { name: 'Who held it at a moment' });

    await bars.last().press('Enter');
    await expect(asked.getByRole('status')).toContainText('Held by ci@1');
    await expect(asked).toContainText('It expired: it was over some time before');
    await expect(page).toHaveURL(/at=20/);
    const box = await bars.last().boundingBox();
    await bars.last().click({ position: { x: (box?.width ?? 0) - 2, y: 4 } });
    await expect(asked.getByRole('status')).toContainText('ci@2');

    await page.getByRole('tab', { name: 'Events' }).click();
    await expect(page).not.toHaveURL(/at=20/);
    await page.goBack();
    await expect(asked.getByRole('status')).toContainText('ci@2');
  });

  test('an environment shows who holds it, and why, also before it is revoked', async ({
    pageAs,
    seeded,
  }) => {
    const page = await pageAs('operator');
    await page.goto('/environments?q=namespace:shop');
    await untilLive(page);
    const row = tableOf(page, 'environments').row('production');
    await expect(row).toContainText('ci-deploy@runner-14');
    await expect(row).toContainText('deploy');

    await row.getByRole('link', { name: seeded.environments.production.name }).click();
    await expect(page.getByText('6.2.1 to all regions, change CHG-4471').first()).toBeVisible();

    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Revoke shop/production' });
    await expect(dialog).toContainText('ci-deploy@runner-14 holds it for deploy');
    await expect(dialog).toContainText('Comment: “6.2.1 to all regions, change CHG-4471”');
    await dialog.getByText('Force: end it now').click();
    await dialog.getByLabel(/^Reason/).fill('The runner is gone');
    const typed = dialog.getByLabel(/^To confirm, type/);
    await typed.fill('production');
    await expect(typed).toHaveAccessibleDescription(/The namespace is missing/);
    await typed.fill('shop/production');
    await expect(dialog.getByRole('button', { name: 'Revoke by force' })).toBeEnabled();
  });
});

/** Some characters that no other test's names have. */
const unique = (): string => randomUUID().slice(0, 6);

const SHORT_TTL_MS = 2_000;

/** An instant as the field of a moment shows it. */
function textOf(instant = ''): string {
  return instant.replace('T', ' ').replace('.000Z', '').replace('Z', '');
}

/** Waits in line as a service does; `granted` is the lease that it gets. */
function joinLine(
  stack: Pick<Parameters<typeof holdLease>[0], 'api'>,
  of: { readonly key: string; readonly holder: string; readonly place: number },
): { joined: Promise<void>; granted: Promise<{ leaseId: string; fencingToken: string }> } {
  const before = (): Promise<number> =>
    stack
      .api('viewer')
      .leases.waiters.query({ namespace: ['e2e', 'jobs'], key: of.key })
      .then(({ items }) => items.length);
  const ask = async (): Promise<{ leaseId: string; fencingToken: string }> => {
    await expect.poll(before).toBe(of.place);
    const answer = await stack.api('client').leases.acquire.mutate({
      namespace: ['e2e', 'jobs'],
      key: of.key,
      ttlMs: 600_000,
      waitMs: 60_000,
      holder: of.holder,
      localTimeMs: 1_000,
      idempotencyKey: randomUUID(),
    });
    if (answer.outcome !== 'granted') throw new Error(`${of.holder} was not granted ${of.key}`);
    const { leaseId, fencingToken } = answer.lease;
    return { leaseId, fencingToken };
  };
  const granted = ask();
  const joined = expect.poll(before).toBeGreaterThan(of.place);
  return { joined, granted };
}
