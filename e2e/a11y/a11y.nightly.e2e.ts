import { checkSchemes } from '../fixtures/axe.ts';
import { untilLive } from '../fixtures/grants.ts';
import { openPage } from '../fixtures/open-page.ts';
import { expect, test } from '../fixtures/test.ts';
import { PAGES } from '../pages.ts';

test.describe('accessible', () => {
  test('every page with realistic data, in light and dark', async ({ pageAs, seeded }) => {
    test.setTimeout(300_000);
    const page = await pageAs('admin', { reducedMotion: 'reduce' });
    const found: string[] = [];
    for (const shown of PAGES) {
      await openPage(page, shown, seeded);
      await checkSchemes(page, shown.name, found);
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
});
