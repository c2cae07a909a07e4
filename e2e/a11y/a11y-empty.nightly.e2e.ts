import { checkSchemes } from '../fixtures/axe.ts';
import { openPage } from '../fixtures/open-page.ts';
import { expect, test } from '../fixtures/test.ts';
import { PAGES } from '../pages.ts';
import type { Seeded } from '../seed/seed-realistic.ts';

test.describe('accessible', () => {
  // Its name makes it the first file: one worker runs all, and the next ones fill the pages.
  test('every list without data, in light and dark', async ({ pageAs }) => {
    test.setTimeout(300_000);
    const page = await pageAs('admin', { reducedMotion: 'reduce' });
    const found: string[] = [];
    for (const shown of PAGES.filter((one) => one.isDetail !== true)) {
      await openPage(page, shown, {} as Seeded);
      await checkSchemes(page, `${shown.name}, empty`, found);
    }

    expect(found).toEqual([]);
  });
});
