import { randomUUID } from 'node:crypto';
import {
  actWithReason,
  holdLease,
  openRoom,
  sessionOfDrone,
  tableOf,
  untilDroneIsBack,
  untilLive,
} from '../fixtures/grants.ts';
import type { Stack } from '../fixtures/stack.ts';
import { expect, test } from '../fixtures/test.ts';

/** Renames a table while `work` runs, so that the controller really fails. */
async function withoutTable(
  { sql }: Pick<Stack, 'sql'>,
  table: string,
  work: () => Promise<void>,
): Promise<void> {
  await sql.query(`alter table "${table}" rename to "${table}_gone"`);
  try {
    await work();
  } finally {
    await sql.query(`alter table "${table}_gone" rename to "${table}"`);
  }
}

test.describe('failures are shown', () => {
  test('a controller that fails: the page shows the incident id, and a retry works', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('operator');
    try {
      await withoutTable(stack, 'audit', async () => {
        await page.goto('/audit');
        const failure = page.getByRole('alert').filter({ hasText: 'Could not read' });
        await expect(failure).toBeVisible();
        await expect(failure.getByRole('button', { name: 'Copy the incident id' })).toBeVisible();
        // The page also retries by itself: an answer before the click would take the button away.
        stack.proxy.hold();
      });
      await page.getByRole('button', { name: 'Try again' }).click();
    } finally {
      stack.proxy.heal();
    }
    await expect(page.getByRole('region', { name: 'audit' })).toBeVisible();
  });

  for (const { what, table, path } of [
    { what: 'the freezes', table: 'environment_freeze', path: '/environments' },
    { what: 'the gateways', table: 'gateway', path: '/drones' },
  ]) {
    test(`a part beside a list says that ${what} could not be read`, async ({ pageAs, stack }) => {
      const page = await pageAs('operator');
      await withoutTable(stack, table, async () => {
        await page.goto(path);
        await expect(
          page.getByRole('alert').filter({ hasText: `Could not read ${what}` }),
        ).toBeVisible();
      });
    });
  }

  test('slow answers: the page has its frame and skeletons, and then its rows', async ({
    pageAs,
    seeded,
    stack,
  }) => {
    expect(seeded.keys.count).toBeGreaterThan(0);
    const page = await pageAs('operator');
    await page.goto('/audit');
    await untilLive(page);
    const { table } = tableOf(page, 'keys');
    stack.proxy.hold();
    try {
      await page
        .getByRole('navigation', { name: 'Pages' })
        .getByRole('link', { name: 'Keys' })
        .click();
      await expect(page.getByRole('heading', { level: 1, name: 'Keys' })).toBeVisible();
      await expect(table.locator('table[aria-busy="true"]')).toBeVisible();
    } finally {
      stack.proxy.heal();
    }

    await expect(table.locator('tr[data-row]').first()).toBeVisible();
    await expect(table.locator('table[aria-busy="true"]')).toHaveCount(0);
  });

  test('an open dialog says that another person has revoked its grant, and does it no second time', async ({
    pageAs,
    stack,
  }) => {
    const room = await openRoom(stack, 'revoked-meanwhile');
    const page = await pageAs('operator');
    await page.goto(room.path);
    await untilLive(page);
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel(/^Reason/).fill('Too late');
    const act = dialog.getByRole('button', { name: 'Revoke', exact: true });
    await expect(act).toBeEnabled();

    await stack.api('operator').keys.revoke.mutate({
      leaseId: room.leaseId,
      mode: 'force',
      abandon: true,
      reason: 'A colleague was faster',
    });

    await expect(dialog).toContainText('Another person has revoked it meanwhile.');
    await expect(act).toBeDisabled();
    await expect(dialog.getByLabel(/^Reason/)).toHaveValue('Too late');
  });

  test('a revoke whose answer was lost is not taken for one of another person', async ({
    pageAs,
    stack,
  }) => {
    const lease = await holdLease(stack, { key: 'answer-lost', holder: 'somebody' });
    const page = await pageAs('operator');
    await page.goto(lease.path);
    await untilLive(page);
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    await page.route('**/trpc/leases.revoke**', async (route) => {
      await route.fetch();
      await route.abort();
    });
    await actWithReason(page, { reason: 'It hangs', label: 'Revoke' });

    const dialog = page.getByRole('dialog');
    await expect(dialog).toContainText('Its renewal has been blocked meanwhile, perhaps by this.');
    await expect(dialog.getByRole('alert')).toContainText('what it did is unknown');
  });

  test('a bulk dialog that met an ended session counts what is held after the sign-in', async ({
    pageAs,
    stack,
  }) => {
    const stem = `uncounted-${randomUUID().slice(0, 6)}`;
    await holdLease(stack, { key: stem, holder: 'somebody' });
    const page = await pageAs('operator');
    await page.goto(`/leases?q=${stem}`);
    await untilLive(page);
    await tableOf(page, 'leases').row(stem).getByRole('checkbox').check();
    await page.route(
      '**/trpc/bulk.preview**',
      async (route) => {
        await page.context().clearCookies();
        await route.continue();
      },
      { times: 1 },
    );
    const selection = page.getByRole('region', { name: 'Selection' });
    await selection.getByRole('button', { name: 'Revoke', exact: true }).click();
    const ended = page.getByRole('dialog', { name: 'Your session has ended' });
    await ended.getByLabel(/^Password/).fill(stack.people.operator.password);
    await ended.getByRole('button', { name: 'Sign in', exact: true }).click();

    await expect(ended).toBeHidden();
    const dialog = page.getByRole('dialog', { name: 'Revoke 1 lease' });
    await expect(dialog.getByRole('status')).toHaveText('The selected lease is held.');
  });

  test('a revoke of a grant that has already ended reports that', async ({ pageAs, stack }) => {
    const room = await openRoom(stack, 'ended-meanwhile');
    const page = await pageAs('operator');
    await page.goto(room.path);
    await untilLive(page);
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    await expect(page.getByRole('dialog')).toBeVisible();

    // The dialog has not looked yet.
    await page.route('**/trpc/keys.get**', (route) => route.abort());
    await stack.api('operator').keys.revoke.mutate({
      leaseId: room.leaseId,
      mode: 'force',
      abandon: true,
      reason: 'A colleague was faster',
    });
    await actWithReason(page, { reason: 'Too late', label: /^Revoke/ });

    await expect(page.getByText(/had ended|has ended|already over|already ended/i)).toBeVisible();
  });

  test('a controller that cannot read the session says why, with the incident, and the page goes on later', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('viewer');
    await withoutTable(stack, 'person_session', async () => {
      const failure = page.getByRole('alert').filter({ hasText: 'Could not read your session' });
      // The controller knows a session that it has read for some seconds more.
      await expect(async () => {
        await page.goto('/keys');
        await expect(failure.getByRole('button', { name: 'Copy the incident id' })).toBeVisible({
          timeout: 2_000,
        });
      }).toPass();
      await expect(page.getByText('No controller answers')).toHaveCount(0);
    });
    await expect(page.getByRole('heading', { level: 1, name: 'Keys' })).toBeVisible();
  });

  test('no controller at all: the page reports it, and goes on when a controller is back', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('viewer');
    const sessionBefore = await sessionOfDrone(stack);
    await stack.controller().kill();
    await page.goto('/keys');
    await expect(page.getByRole('heading', { name: 'No controller answers' })).toBeVisible();

    await stack.restartController();
    await expect(page.getByRole('heading', { level: 1, name: 'Keys' })).toBeVisible();
    // The next test needs it.
    await untilDroneIsBack(stack, sessionBefore);
  });
});
