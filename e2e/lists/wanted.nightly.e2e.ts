import type { Page } from '@playwright/test';
import { openRoom, untilLive } from '../fixtures/grants.ts';
import { expect, test } from '../fixtures/test.ts';

// Menus and tips also work while they move, as most people see them.
test.use({ contextOptions: { reducedMotion: 'no-preference' } });

/** Parts that are loaded only when they are needed work the first time as they do every time. */
test.describe('loaded on demand', () => {
  test('a tip shows on hover and on focus, and Escape and leaving close it', async ({
    pageAs,
    seeded: _seeded,
  }) => {
    const page = await pageAs('viewer');
    await page.goto('/keys');
    await untilLive(page);
    const tip = page.getByRole('tooltip');
    const pausing = page.getByRole('button', { name: 'Pause live changes' });

    await pausing.hover();
    await expect(tip).toHaveText('Pause changes and countdowns');
    await expect(pausing).toHaveAccessibleDescription('Pause changes and countdowns');
    await page.mouse.move(0, 0);
    await expect(tip).toHaveCount(0);
    await page.keyboard.press('Tab');
    await pausing.focus();
    await expect(tip).toHaveText('Pause changes and countdowns');
    await page.keyboard.press('Escape');
    await expect(tip).toHaveCount(0);
    await expect(pausing).toBeFocused();
  });

  test('a button that may not be used has its reason as a description, not in its name', async ({
    pageAs,
    stack,
  }) => {
    const room = await openRoom(stack, 'why-not');
    const page = await pageAs('viewer');
    await page.goto(`/keys/detail?namespace=${room.namespace}&name=${room.name}`);
    const revoke = page.getByRole('button', { name: 'Revoke', exact: true });

    await expect(revoke).toHaveAccessibleDescription(/operator/);
    await revoke.hover();
    await expect(page.getByRole('tooltip')).toContainText(/operator/);
  });

  test('a menu opens by mouse, Enter and arrow, and gives the focus back', async ({ pageAs }) => {
    const page = await pageAs('viewer');
    await page.goto('/keys');
    await untilLive(page);
    for (const open of [
      (name: string) => page.getByRole('button', { name }).click(),
      (name: string) => page.getByRole('button', { name }).press('Enter'),
      (name: string) => page.getByRole('button', { name }).press('ArrowDown'),
    ]) {
      for (const [name, item] of [
        ['Colours', 'menuitem'],
        ['Phase', 'menuitemradio'],
      ] as const) {
        await checkMenu(page, name, item, open);
      }
    }
  });

  test('kinds of events are chosen one after the other, and kept in the address', async ({
    pageAs,
    seeded: _seeded,
  }) => {
    const page = await pageAs('viewer');
    await page.goto('/events');
    await untilLive(page);
    await page.getByRole('button', { name: 'Event', exact: true }).click();
    const kinds = page.getByRole('menuitemcheckbox');
    await kinds.nth(0).click();
    await kinds.nth(1).click();
    await expect(kinds.nth(1)).toBeChecked();
    await page.keyboard.press('Escape');

    await expect(page).toHaveURL(/kinds=\w+(,|%2C)\w+/);
    await page.getByRole('button', { name: 'Type', exact: true }).click();
    await page.getByRole('menuitemradio', { name: 'Leases' }).click();
    await expect(page).toHaveURL(/face=lease/);
  });

  test('a bulk action in the address is shown in its panel', async ({ pageAs }) => {
    const page = await pageAs('operator');
    await page.goto('/keys?bulk=01890000-0000-7000-8000-000000000000');

    await expect(page.getByRole('region', { name: 'Bulk action' })).toBeVisible();
  });

  test('another page of a list begins at its top', async ({ pageAs, seeded: _seeded }) => {
    const page = await pageAs('viewer', { viewport: { width: 1440, height: 400 } });
    await page.goto('/events');
    await untilLive(page);
    const next = page.getByRole('button', { name: 'Next' });
    await next.click();

    const region = page.getByRole('region', { name: 'events' });
    await expect(region).toBeFocused();
    await expect(region.locator('thead')).toBeInViewport();
    await expect(page).toHaveURL(/after=/);
  });
});

async function checkMenu(
  page: Page,
  name: string,
  item: 'menuitem' | 'menuitemradio',
  open: (name: string) => Promise<void>,
): Promise<void> {
  const button = page.getByRole('button', { name });
  await open(name);
  await expect(button).toHaveAttribute('aria-expanded', 'true');
  await expect(page.getByRole('menu', { name })).toBeVisible();
  await expect(page.getByRole(item).first()).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('menu')).toHaveCount(0);
  await expect(button).toBeFocused();
  await expect(button).toHaveAttribute('aria-expanded', 'false');
}
