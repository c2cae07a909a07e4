import type { Page } from '@playwright/test';
import { violationsOf } from '../fixtures/axe.ts';
import { expect, test } from '../fixtures/test.ts';

/** What a visitor reads first, a page with a drawing, a page with tables, and generated ones. */
const READ = [
  '/docs/',
  '/docs/concepts/takeover',
  '/docs/comparison',
  '/docs/operate/runbook',
  '/docs/reference/configuration',
  '/docs/reference/commands',
];

/** What the browser reports that a policy or a missing file has stopped. */
function complaintsOf(page: Page): string[] {
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  return complaints;
}

/** Waits until the page's script is at work: what is clicked before is shown, and does nothing. */
async function untilMounted(page: Page): Promise<void> {
  await page.waitForFunction(() => '__vue_app__' in (document.querySelector('#app') ?? {}));
}

test.describe('the documentation', () => {
  test('an operator opens it from the console, searches for "fencing" and reads the page', async ({
    pageAs,
  }) => {
    const page = await pageAs('operator');
    const complaints = complaintsOf(page);
    await page.goto('/audit');

    await page
      .getByRole('navigation', { name: 'Pages' })
      .getByRole('link', { name: 'Documentation' })
      .click();
    await expect(page.getByRole('heading', { level: 1, name: 'Leasehold' })).toBeVisible();
    await untilMounted(page);
    await page.getByRole('button', { name: 'Search' }).click();
    await page.getByRole('searchbox').fill('fencing');
    const results = page.getByRole('option');
    await expect(results.first()).toBeVisible();
    // Excerpts come later, below the titles.
    const titled = page.locator('.titles').filter({ hasText: /^\W*Fencing$/u });
    await results.filter({ has: titled }).first().click();

    await expect(page.getByRole('heading', { level: 1, name: 'Fencing' })).toBeVisible();
    await expect(page).toHaveURL(/\/docs\/concepts\/fencing/u);
    await expect(page.getByRole('img', { name: /A fenced write/u })).toBeVisible();
    expect(complaints).toEqual([]);

    await page.getByRole('link', { name: 'Console', exact: true }).click();
    await expect(page.getByRole('heading', { level: 1, name: 'Overview' })).toBeVisible();
  });

  test('a visitor who has not signed in can read it, and learns nothing of the installation', async ({
    page,
  }) => {
    const complaints = complaintsOf(page);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));

    await page.goto('/docs/operate/runbook');
    await expect(page.getByRole('heading', { level: 1, name: 'Runbook' })).toBeVisible();

    expect(complaints).toEqual([]);
    expect(asked.length).toBeGreaterThan(5);
    expect(asked.filter((path) => !path.startsWith('/docs/'))).toEqual([]);
  });

  for (const colorScheme of ['light', 'dark'] as const) {
    test(`is readable in ${colorScheme} colours, for assistive technology too`, async ({
      page,
    }) => {
      await page.emulateMedia({ colorScheme });
      const found: string[] = [];

      for (const path of READ) {
        await page.goto(path);
        await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
        await expect(page.locator('html')).toHaveClass(
          colorScheme === 'dark' ? /dark/u : /^(?!.*dark)/u,
        );
        const lines = await violationsOf(page, 'everything');
        // The generator's own button, which shows its keys beside its name.
        found.push(
          ...lines.filter((line) => !line.includes('.DocSearch')).map((line) => `${path}: ${line}`),
        );
      }

      expect(found).toEqual([]);
    });
  }

  test('no page is wider than a phone, and its pages are in a menu there', async ({ page }) => {
    await page.setViewportSize({ width: 390, height: 844 });
    const wide: string[] = [];

    for (const path of READ) {
      await page.goto(path);
      await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
      const more = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      if (more > 0) wide.push(`${path} by ${String(more)} px`);
    }

    expect(wide).toEqual([]);
    await untilMounted(page);
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.getByRole('link', { name: 'Takeover' }).click();
    await expect(page.getByRole('heading', { level: 1, name: 'Takeover' })).toBeVisible();
  });
});
