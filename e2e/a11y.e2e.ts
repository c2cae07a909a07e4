import type { Page } from '@playwright/test';
import { violationsOf } from './fixtures/axe.ts';
import { openRoom, untilLive } from './fixtures/grants.ts';
import { expect, test } from './fixtures/test.ts';
import { PAGES, type ConsolePage } from './pages.ts';
import type { Seeded } from './seed/seed-realistic.ts';

/** What differs between the schemes is colours. */
const SCHEMES = [
  ['light', 'everything'],
  ['dark', 'colors'],
] as const;
/** The narrowest screen, and 1280 px at twice their size. */
const SMALL_SIZES = {
  'at 320 px': { width: 320, height: 640 },
  'at 200 %': { width: 640, height: 400 },
};

/** What pages show; who is signed in, and the stream, are answered. */
const READS = /\/trpc\/(?!session\.|events\.watch)/u;

async function open(page: Page, shown: ConsolePage, seeded: Seeded): Promise<void> {
  await page.goto(shown.path(seeded));
  await page.getByRole('heading', { level: 1, name: shown.heading }).waitFor();
  await untilLive(page);
}

test.describe('accessible', () => {
  // One file, one worker: the pages before there is anything come first.
  test('every list without anything, in light and dark', async ({ pageAs }) => {
    test.setTimeout(120_000);
    const page = await pageAs('admin', { reducedMotion: 'reduce' });
    const found: string[] = [];
    for (const shown of PAGES.filter((one) => one.isDetail !== true)) {
      await page.goto(shown.path({} as Seeded));
      await untilLive(page);
      await checkSchemes(page, `${shown.name}, empty`, found);
    }

    expect(found).toEqual([]);
  });

  test('every page in a working day, in light and dark', async ({ pageAs, seeded }) => {
    test.setTimeout(180_000);
    const page = await pageAs('admin', { reducedMotion: 'reduce' });
    const found: string[] = [];
    for (const shown of PAGES) {
      await open(page, shown, seeded);
      await checkSchemes(page, shown.name, found);
    }

    expect(found).toEqual([]);
  });

  test('every list while it is read, and when it cannot be, in light and dark', async ({
    pageAs,
    seeded,
  }) => {
    test.setTimeout(180_000);
    const found: string[] = [];
    // The first rows of the others come with the page.
    const shown = PAGES.filter(({ name }) => !['overview', 'keys', 'key'].includes(name));
    for (const state of ['loading', 'failed'] as const) {
      const page = await pageAs('admin', { reducedMotion: 'reduce' });
      await page.route(READS, (route) => (state === 'failed' ? route.abort() : undefined));
      for (const one of shown) {
        await page.goto(one.path(seeded));
        await (
          state === 'loading'
            ? page.locator('[aria-busy="true"]').first()
            : page.getByRole('alert').filter({ hasText: 'Could not read' }).first()
        ).waitFor();
        await checkSchemes(page, `${one.name}, ${state}`, found);
      }
      await page.unrouteAll({ behavior: 'ignoreErrors' });
    }

    expect(found).toEqual([]);
  });

  test('the sign-in page, the help and the command palette', async ({ page, pageAs }) => {
    const found: string[] = [];
    await page.goto('/sign-in');
    await page.getByRole('heading', { level: 1 }).waitFor();
    await checkSchemes(page, 'sign-in', found);
    const inside = await pageAs('viewer', { reducedMotion: 'reduce' });
    await inside.goto('/keys');
    await untilLive(inside);
    await inside.keyboard.press('?');
    await inside.getByRole('dialog').waitFor();
    await checkSchemes(inside, 'help', found);
    await inside.keyboard.press('Escape');
    await inside.keyboard.press('Control+k');
    await inside.getByRole('dialog').waitFor();
    await checkSchemes(inside, 'palette', found);

    expect(found).toEqual([]);
  });

  for (const [what, size] of Object.entries(SMALL_SIZES)) {
    test(`${what} no page scrolls sideways`, async ({ pageAs, seeded }) => {
      const page = await pageAs('admin', { viewport: size, reducedMotion: 'reduce' });
      const wide: string[] = [];
      for (const shown of PAGES) {
        await open(page, shown, seeded);
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
    // Letters are letters as long as the focus is in the search.
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

async function checkSchemes(page: Page, what: string, found: string[]): Promise<void> {
  for (const [colorScheme, checks] of SCHEMES) {
    await page.emulateMedia({ colorScheme });
    const lines = await violationsOf(page, checks);
    found.push(...lines.map((line) => `${what}, ${colorScheme}: ${line}`));
  }
}

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
