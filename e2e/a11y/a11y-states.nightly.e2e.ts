import type { Locator, Page } from '@playwright/test';
import { checkSchemes } from '../fixtures/axe.ts';
import { openRoom, untilLive } from '../fixtures/grants.ts';
import { openPage } from '../fixtures/open-page.ts';
import { startGatedConsole } from '../fixtures/read-gate.ts';
import { expect, test } from '../fixtures/test.ts';
import { PAGES } from '../pages.ts';

/** The narrowest screen, and a screen of 1280 px at a zoom of 200 %. */
const SMALL_SIZES = {
  'at 320 px': { width: 320, height: 640 },
  'at 200 %': { width: 640, height: 400 },
};

/** How many pages are open at once: as many as two cores can carry. */
const TABS = 5;

test.describe('accessible in every state', () => {
  test('every page while it loads and after it failed to load, in light and dark, and nothing moves', async ({
    pageAs,
    seeded,
    stack,
  }) => {
    test.setTimeout(400_000);
    const gated = await startGatedConsole(stack);
    const found: string[] = [];
    const tabs = await Promise.all(
      Array.from({ length: TABS }, () =>
        pageAs('admin', { baseURL: gated.url, reducedMotion: 'reduce' }),
      ),
    );
    for (let first = 0; first < PAGES.length; first += TABS) {
      const opened = PAGES.slice(first, first + TABS).map((shown, index) => ({
        shown,
        page: tabs[index] as Page,
      }));
      gated.set('held');
      await Promise.all(opened.map(({ shown, page }) => page.goto(shown.path(seeded))));
      await check('loading', (page) => page.locator('[aria-busy="true"]'));
      gated.set('failing');
      await check('failed', (page) =>
        page.getByRole('alert').filter({ hasText: 'Could not read' }),
      );

      // Waits for all at once: a page retries for seconds before it shows that it could not read.
      async function check(state: string, shownBy: (page: Page) => Locator): Promise<void> {
        await Promise.all(opened.map(({ page }) => shownBy(page).first().waitFor()));
        for (const { shown, page } of opened) {
          await checkSchemes(page, `${shown.name}, ${state}`, found);
          const moving = await page.evaluate(() => document.getAnimations().length);
          if (moving > 0) found.push(`${shown.name}, ${state}: ${String(moving)} parts move`);
        }
      }
    }
    await gated.close();

    expect(found).toEqual([]);
  });

  for (const [what, size] of Object.entries(SMALL_SIZES)) {
    test(`${what} no page scrolls sideways`, async ({ pageAs, seeded }) => {
      const page = await pageAs('admin', { viewport: size, reducedMotion: 'reduce' });
      const wide: string[] = [];
      for (const shown of PAGES) {
        await openPage(page, shown, seeded);
        const overflow = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        if (overflow > 0) wide.push(`${shown.name}: ${String(overflow)} px`);
      }

      expect(wide).toEqual([]);
    });
  }

  test('a key is found and revoked by keyboard alone', async ({ pageAs, stack }) => {
    const room = await openRoom(stack, 'by-keyboard');
    const { namespace, name } = room;
    const page = await pageAs('operator');
    await page.goto('/keys');
    await untilLive(page);

    await page.keyboard.press('/');
    await page.keyboard.type(room.name);
    await page.keyboard.press('Enter');
    await expect(page.getByRole('link', { name: room.name })).toBeVisible();
    // As long as the focus is in the search, a letter is text and not a shortcut.
    await page.keyboard.press('Tab');
    await page.keyboard.press('j');
    await expect(page.getByRole('link', { name: room.name })).toBeFocused();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: room.name }).waitFor();
    await untilLive(page);

    await tabTo(page, 'Revoke');
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    await tabTo(page, /^Reason/);
    await page.keyboard.type('Found and revoked without a mouse');
    await tabTo(page, /^Revoke/);
    await page.keyboard.press('Enter');

    await expect
      .poll(async () => (await stack.api('viewer').keys.get.query({ namespace, name }))?.phase)
      .not.toBe('held');
  });
});

const TABS_MAX = 80;

/** Presses Tab until the element of this name has the focus, as somebody without a mouse does. */
async function tabTo(page: Page, name: string | RegExp): Promise<void> {
  const wanted = page
    .getByRole('button', { name, ...(typeof name === 'string' ? { exact: true } : {}) })
    .or(page.getByRole('textbox', { name }));
  for (let presses = 0; presses < TABS_MAX; presses += 1) {
    await page.keyboard.press('Tab');
    const isThere = await wanted.evaluateAll((all) =>
      all.includes(document.activeElement as never),
    );
    if (isThere) return;
  }
  throw new Error(`Tab does not lead to ${String(name)}`);
}
