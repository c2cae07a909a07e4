import {
  connectRoom,
  openRoom,
  sessionOfDrone,
  tableOf,
  untilDroneIsBack,
  untilLive,
} from '../fixtures/grants.ts';
import { expect, test } from '../fixtures/test.ts';

test.describe('live', () => {
  test('rows do not move under the pointer, and changes are shown on request', async ({
    pageAs,
    stack,
  }) => {
    await openRoom(stack, 'a-first');
    const page = await pageAs('viewer');
    await page.goto('/keys?q=namespace:e2e.rooms&sort=grantedAt&dir=desc');
    await untilLive(page);
    const { table, row } = tableOf(page, 'keys');
    await table.getByRole('link').first().hover();

    const { name } = await openRoom(stack, 'under-a-hand');
    const changes = page.getByRole('button', { name: /change(s)?: show$/ });
    await expect(changes).toBeVisible();
    await expect(row(name)).toBeHidden();

    await changes.click();
    await expect(row(name)).toBeVisible();
  });

  test('a controller that is killed and started again: the page says it is stale, then recovers', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('viewer');
    await page.goto('/keys?q=namespace:e2e.rooms');
    await untilLive(page);

    const sessionBefore = await sessionOfDrone(stack);

    await stack.controller().kill();
    await expect(page.getByRole('status').filter({ hasText: 'Not live' })).toBeVisible();
    await expect(page.getByRole('alert').filter({ hasText: /^Stale/ })).toBeVisible();
    await expect(page.getByRole('status').filter({ hasText: /^Live/ })).toHaveCount(0);

    await stack.restartController();
    await expect(page.getByRole('status').filter({ hasText: /^Live/ })).toBeVisible();
    await expect(page.getByRole('alert').filter({ hasText: /^Stale/ })).toHaveCount(0);
    await untilDroneIsBack(stack, sessionBefore);
    const room = await connectRoom(stack, `after-the-restart-${String(Date.now())}`);
    await expect(tableOf(page, 'keys').row(room.name)).toBeVisible();
  });
});
