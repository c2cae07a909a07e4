import { untilLive } from '../fixtures/grants.ts';
import { expect, test } from '../fixtures/test.ts';

const ROW = 'tr[data-row]';

test.describe('a list', () => {
  test('is taken over by the browser after Next, Next and a reload', async ({ pageAs, seeded }) => {
    expect(seeded.keys.count).toBeGreaterThan(200);
    const page = await pageAs('operator');
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(error.message));
    await page.goto('/keys');
    await untilLive(page);
    const first = page.locator(`${ROW} a`).first();
    for (let turned = 0; turned < 2; turned += 1) {
      const before = await first.innerText();
      await page.getByRole('button', { name: 'Next', exact: true }).click();
      await expect(first).not.toHaveText(before);
    }
    await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
    await page.reload();
    await untilLive(page);

    expect(errors).toEqual([]);
  });

  test('keeps its heads in sight, and has one tab stop for each row', async ({
    pageAs,
    seeded,
  }) => {
    expect(seeded.keys.count).toBeGreaterThan(100);
    const page = await pageAs('operator');
    await page.goto('/keys');
    await untilLive(page);
    await page.evaluate(() => window.scrollTo(0, 1_000));
    await expect(page.getByRole('columnheader', { name: 'Holder' })).toBeInViewport({ ratio: 1 });

    await page.evaluate(() => window.scrollTo(0, 0));
    const rows = page.locator(ROW);
    await rows.first().locator('a').first().focus();
    await page.keyboard.press('Tab');
    await expect(rows.nth(1).locator('a').first()).toBeFocused();
    await page.keyboard.press('ArrowLeft');
    await expect(rows.nth(1).getByRole('checkbox')).toBeFocused();
    await page.keyboard.press('ArrowDown');
    await expect(rows.nth(2).getByRole('checkbox')).toBeFocused();
    await page.keyboard.press('Shift+Tab');
    await expect(rows.nth(1).getByRole('checkbox')).toBeFocused();
  });

  test('shows the holder at 768 px', async ({ pageAs, seeded }) => {
    const page = await pageAs('operator', { viewport: { width: 768, height: 900 } });
    const { namespace } = seeded.keys.busy;
    await page.goto(`/keys?q=${encodeURIComponent(`namespace:${namespace} phase:held`)}`);
    await untilLive(page);

    await expect(
      page
        .locator(ROW)
        .first()
        .getByRole('link', { name: /^drone-/ }),
    ).toBeVisible();
  });
});

test('an unknown address is answered inside the frame, with ways on', async ({ pageAs }) => {
  const page = await pageAs('viewer');
  const answer = await page.goto('/no/such/page');

  expect(answer?.status()).toBe(404);
  await expect(page.getByRole('heading', { level: 1, name: 'Page not found' })).toBeVisible();
  await page.getByRole('button', { name: 'Search', exact: true }).click();
  await expect(page.getByRole('dialog')).toBeVisible();
  await page.keyboard.press('Escape');
  await page.getByRole('navigation').getByRole('link', { name: 'Keys' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Keys' })).toBeVisible();
});
