import type { Page } from '@playwright/test';
import { tableOf, untilLive } from '../fixtures/grants.ts';
import { expect, test } from '../fixtures/test.ts';
import type { Seeded } from '../seed/seed-realistic.ts';

const ROW = 'tr[data-row]';

/** The list of keys, of which there are more than a number. */
async function openKeys(page: Page, { keys }: Seeded, moreThan: number): Promise<Page> {
  expect(keys.count).toBeGreaterThan(moreThan);
  await page.goto('/keys');
  await untilLive(page);
  return page;
}

test.describe('a list', () => {
  test('says which rows it shows of how many, after a reload and Back too; nothing differs from what the server sent', async ({
    pageAs,
    seeded,
  }) => {
    const page = await pageAs('operator');
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(error.message));
    await openKeys(page, seeded, 200);
    const pages = page.getByRole('group', { name: 'Pages of keys' });
    await expect(pages).toContainText(/^1 to 100 of \d+/u);
    const total = /of (\d+)/u.exec(await pages.innerText())?.[1] ?? '';
    const first = page.locator(`${ROW} a`).first();
    for (const range of ['101 to 200', '201 to']) {
      const before = await first.innerText();
      await page.getByRole('button', { name: 'Next', exact: true }).click();
      await expect(first).not.toHaveText(before);
      await expect(pages).toContainText(range);
    }
    await page.goBack();
    await expect(pages).toContainText(`101 to 200 of ${total}`);
    await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
    await page.reload();
    await untilLive(page);

    await expect(pages).toContainText(`101 to 200 of ${total}`);
    await expect(page.locator(ROW).last()).toBeInViewport({ ratio: 0 });
    expect(errors).toEqual([]);

    await page.getByLabel('Search keys').fill('q4-roadmap');
    await expect(pages).toContainText(/^1 row/u);
    expect(new URL(page.url()).searchParams.has('before')).toBe(false);
  });

  test('goes one page on by two clicks on Next before its rows are there, and numbers them rightly', async ({
    pageAs,
    seeded,
    stack,
  }) => {
    const page = await openKeys(await pageAs('operator'), seeded, 200);
    const first = page.locator(`${ROW} a`).first();
    const before = await first.innerText();
    const next = page.getByRole('button', { name: 'Next', exact: true });
    stack.proxy.hold();
    try {
      // At once, whether it is enabled or not.
      await next.dispatchEvent('click');
      await next.dispatchEvent('click');
    } finally {
      stack.proxy.heal();
    }

    await expect(first).not.toHaveText(before);
    await expect(page.getByRole('group', { name: 'Pages of keys' })).toContainText(/^101 to 200/u);
  });

  test('of events, people, API tokens and the audit says how many there are', async ({
    pageAs,
    seeded,
    stack,
  }) => {
    expect(seeded.keys.count).toBeGreaterThan(0);
    const { people, tokens } = stack.api('admin');
    for (let place = 1; place <= 101; place += 1) {
      const name = `counted-${String(place)}`;
      await people.invite.mutate({ email: `${name}@example.com`, name, role: 'viewer' });
      await tokens.create.mutate({ name, role: 'client' });
    }
    const page = await pageAs('admin');
    for (const [path, label, place] of [
      ['/access?tab=people&q=counted-', 'people', /^1 to 100 of 101/u],
      ['/access?q=counted-', 'API tokens', /^1 to 100 of 101/u],
      ['/audit?q=counted-', 'audit', /^1 to 100 of 202/u],
      ['/events', 'events', /^1 to 100 of [\d,]{4,}/u],
    ] as const) {
      await page.goto(path);
      await untilLive(page);
      await expect(page.getByRole('group', { name: `Pages of ${label}` })).toContainText(place);
    }
  });

  test('keeps its heads in sight, and has one tab stop for each row', async ({
    pageAs,
    seeded,
  }) => {
    const page = await openKeys(await pageAs('operator'), seeded, 100);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.evaluate(() => window.scrollTo(0, 1_000));
      const head = page.getByRole('columnheader', { name: 'Holder' });
      await expect(head).toBeInViewport({ ratio: 1 });
      expect(await head.evaluate((cell) => getComputedStyle(cell).backgroundColor)).toMatch(
        /^rgb\(/u,
      );
    }

    await page.evaluate(() => window.scrollTo(0, 0));
    const rows = page.locator(ROW);
    // Rows out of sight are rendered when they come near it.
    await expect(rows.first()).toHaveAttribute('data-index', '0');
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

  test('is in the order that its heads say: by namespace, and in it by name', async ({
    pageAs,
    seeded,
  }) => {
    const page = await openKeys(await pageAs('operator'), seeded, 100);
    await expect(page.locator('th[aria-sort="ascending"]')).toHaveText(['Namespace', 'Key']);
    const namesOf = async (): Promise<string[]> =>
      page
        .locator(ROW)
        .evaluateAll((rows) =>
          rows.map((row) =>
            [1, 2].map((at) => row.children[at]?.querySelector('a, span')?.textContent).join('\t'),
          ),
        );
    const ascending = await namesOf();
    expect(ascending).toEqual([...ascending].sort((one, other) => (one < other ? -1 : 1)));
  });

  // 200 % of a window of 1,280 px is one of 640 px.
  for (const width of [768, 640]) {
    test(`shows the holder at ${String(width)} px`, async ({ pageAs, seeded }) => {
      const page = await pageAs('operator', { viewport: { width, height: 900 } });
      for (const [label, path, holder] of [
        ['keys', `/keys?q=namespace:${seeded.keys.busy.namespace}+phase:held`, /drone-/u],
        ['leases', '/leases?q=phase:held', /\w/u],
        ['environments', '/environments?q=phase:held', /\w/u],
      ] as const) {
        await page.goto(path);
        await untilLive(page);
        const { table } = tableOf(page, label);
        const shown = table.locator('[data-holder]').filter({ visible: true });
        await expect(shown.first()).toHaveText(holder);
        const box = await shown.first().boundingBox();
        expect((box?.x ?? width) + (box?.width ?? 0), label).toBeLessThanOrEqual(width);
      }
    });
  }
});

test('the longest namespace and name leave in sight who holds it, and for how long', async ({
  pageAs,
  stack,
}) => {
  const long = 'abcdefghi-'.repeat(12);
  const of = { namespace: [`wide-${long}`], key: long, ttlMs: 3_599_000, holder: long };
  await stack.api('client').leases.acquire.mutate({
    ...of,
    comment: 'as long as it may be '.repeat(8),
    localTimeMs: 1_000,
  });
  const page = await pageAs('operator');
  for (const width of [1_024, 1_440]) {
    await page.setViewportSize({ width, height: 900 });
    await page.goto('/leases?q=wide-');
    await untilLive(page);

    const row = page.locator(ROW).first();
    const holder = row.locator('[data-holder]').filter({ visible: true });
    await expect(holder).toBeInViewport({ ratio: 1 });
    await expect(row.locator('[data-sort="expiresAt"]')).toBeInViewport({ ratio: 1 });
  }

  // Times of the longest kind, which no test waits for.
  const spareOf = (table: Element): number => {
    const granted = table.querySelector('[data-row] td[data-sort="grantedAt"]');
    if (granted !== null) granted.textContent = '59 min 59 s ago';
    return (table.parentElement?.clientWidth ?? 0) - table.getBoundingClientRect().width;
  };
  const table = page.locator('main table:has([data-row])');
  expect(await table.evaluate(spareOf)).toBeGreaterThan(-1);
});

test('drones, people and API tokens are found by a part of their names', async ({
  pageAs,
  seeded,
}) => {
  expect(seeded.keys.count).toBeGreaterThan(0);
  const page = await pageAs('admin');
  for (const [path, label, text, found] of [
    ['/drones', 'Search drones', 'FRA-3', 'drone-fra-3'],
    ['/access?tab=people', 'Search people', 'HADDAD', /Haddad/u],
    ['/access', 'Search API tokens', 'ROOM-GATE', 'room-gateway'],
  ] as const) {
    await page.goto(path);
    await untilLive(page);
    await page.getByLabel(label).fill(text);
    await page.getByLabel(label).press('Enter');
    await expect(page).toHaveURL(new RegExp(`q=${text}`, 'u'));
    await expect(page.locator(ROW).first()).toContainText(found);
    for (const row of await page.locator(ROW).all()) {
      await expect(row).toContainText(new RegExp(text, 'iu'));
    }
    await page.getByLabel(label).fill('nothing-has-this');
    await expect(page.getByRole('heading', { name: /^No .* match/u })).toBeVisible();
  }
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
