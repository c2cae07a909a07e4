import type { Locator, Page } from '@playwright/test';
import { tableOf, untilLive } from '../fixtures/grants.ts';
import type { PersonRole } from '../fixtures/people.ts';
import { expect, test } from '../fixtures/test.ts';
import { stepsOn, type Steps } from './steps.ts';

/** Looks for something by its name, from wherever one is, and as fast as one can: the palette loses no key. */
async function goTo(steps: Steps, name: string): Promise<void> {
  await steps.press('Control+k');
  await steps.type(name);
  await steps.press('Enter');
}

test.describe('what people ask, on a seeded day, and the steps that the answer takes', () => {
  test('who holds a key: two keystrokes beyond its name', async ({ pageAs, seeded, stack }) => {
    const { namespace, name } = seeded.keys.busy;
    const page = await begin('viewer', pageAs);
    const steps = stepsOn(page);

    await goTo(steps, name);

    const known = await stack.api('viewer').keys.get.query({ namespace, name });
    await expect(page.getByRole('heading', { level: 1, name })).toBeVisible();
    const holder = page.getByRole('region', { name: 'Holder' });
    await expect(holder).toContainText(known?.holder ?? 'nobody');
    await expect(holder).toContainText('Held by');
    expect(steps.count()).toBe(2);
  });

  test('why a lease was revoked last night: at most three steps', async ({ pageAs, seeded }) => {
    void seeded;
    const page = await begin('viewer', pageAs);
    const steps = stepsOn(page);

    await goTo(steps, 'settlement-uk');

    const revoked = tableOf(page, 'grants').row('FIN-881');
    await expect(revoked).toContainText('Two settlement files for one value date');
    await expect(revoked).toContainText('omar.haddad@example.com');
    await expect(revoked).toContainText('payout-service@pay-k3x1d:41');
    expect(steps.count()).toBeLessThanOrEqual(3);
  });

  test('everything that a person did: two keystrokes beyond their name', async ({
    pageAs,
    seeded,
    stack,
  }) => {
    void seeded;
    const page = await begin('admin', pageAs);
    const steps = stepsOn(page);

    await goTo(steps, 'omar');

    // All that Omar did is there, sign-ins too, and nothing of anybody else.
    const { rows } = await stack.sql.query<{ count: number }>(
      `select count(*)::int as count from leasehold.audit where actor = 'omar.haddad@example.com'`,
    );
    const { table, row } = tableOf(page, 'audit');
    await expect(row('omar.haddad@example.com')).toHaveCount(rows[0]?.count ?? 0);
    await expect(table.getByRole('row')).toHaveCount((rows[0]?.count ?? 0) + 1);
    await expect(row('ECC errors, OPS-2202')).toBeVisible();
    await expect(row('Two settlement files for one value date, FIN-881')).toBeVisible();
    expect(steps.count()).toBe(2);
  });

  test('what is waiting for what: two steps', async ({ pageAs, seeded, stack }) => {
    const { namespace, name } = seeded.leases.queued;
    const page = await begin('viewer', pageAs);
    const steps = stepsOn(page);

    await steps.click(navigation(page).getByRole('link', { name: 'Leases' }));
    await steps.click(page.getByRole('tab', { name: 'Waits' }));

    const lines = page.getByRole('region', { name: /^Who .* for whom$/ });
    const line = lines.getByRole('rowgroup').filter({ hasText: `${namespace}/${name}` });
    const { items } = await stack.api('viewer').leases.contention.query({ namespace, limit: 100 });
    const waiters = items.filter((one) => one.name === name);
    expect(waiters).toHaveLength(6);
    await expect(line).toContainText(`held by ${waiters[0]?.holders[0]?.holder ?? 'nobody'}`);
    for (const { waiter } of waiters) await expect(line).toContainText(waiter);
    expect(steps.count()).toBe(2);
  });
});

function navigation(page: Page): Locator {
  return page.getByRole('navigation', { name: 'Pages' });
}

/** Where everybody begins. */
async function begin(role: PersonRole, pageAs: (role: PersonRole) => Promise<Page>): Promise<Page> {
  const page = await pageAs(role);
  await page.goto('/');
  await untilLive(page);
  return page;
}
