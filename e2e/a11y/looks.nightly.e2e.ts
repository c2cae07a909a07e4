import { randomUUID } from 'node:crypto';
import type { Page } from '@playwright/test';
import { tableOf, untilLive } from '../fixtures/grants.ts';
import { openPage } from '../fixtures/open-page.ts';
import { startGatedConsole } from '../fixtures/read-gate.ts';
import { DRONE_ID } from '../fixtures/stack.ts';
import { expect, test } from '../fixtures/test.ts';
import { PAGES } from '../pages.ts';

/** From this share of the page on, people notice that it moves. */
const SHIFT_MAX = 0.1;

/** The pairs of size and weight of the text of all pages. */
const LETTERINGS_MAX = 9;

test.describe('how pages look', () => {
  for (const width of [1440, 390]) {
    test(`nothing moves while a page is read at ${String(width)} px`, async ({
      pageAs,
      seeded,
    }) => {
      const moved: string[] = [];
      for (const shown of PAGES) {
        const page = await pageAs('admin');
        await page.setViewportSize({ width, height: 900 });
        await page.goto(shown.path(seeded));
        await page.getByRole('heading', { level: 1, name: shown.heading }).waitFor();
        await untilLive(page);
        const shift = await shiftOf(page);
        if (shift.sum >= SHIFT_MAX) {
          moved.push(`${shown.name}: ${shift.sum.toFixed(2)} by ${shift.by}`);
        }
        await page.close();
      }

      expect(moved).toEqual([]);
    });
  }

  test('text has few pairs of size and weight', async ({ pageAs, seeded }) => {
    const page = await pageAs('admin');
    const letterings = new Map<string, string>();
    for (const shown of PAGES) {
      await openPage(page, shown, seeded);
      for (const [lettering, text] of await letteringsOn(page)) {
        if (!letterings.has(lettering)) letterings.set(lettering, `${shown.name}: ${text}`);
      }
    }

    const found = [...letterings].map(([lettering, where]) => `${lettering} (${where})`).sort();
    expect(found.length, found.join('\n')).toBeLessThanOrEqual(LETTERINGS_MAX);
  });

  test('no list is wider than its place at 1440 px, so that nothing at the end of a row is cut off', async ({
    pageAs,
    seeded,
  }) => {
    const page = await pageAs('admin');
    await page.setViewportSize({ width: 1440, height: 900 });
    const wide: string[] = [];
    for (const shown of PAGES) {
      await openPage(page, shown, seeded);
      const widths = await page.locator('main table:has([data-row])').evaluateAll((tables) =>
        tables.map((table) => {
          const place = table.parentElement?.clientWidth ?? 0;
          return { table: Math.floor(table.getBoundingClientRect().width), place };
        }),
      );
      for (const { table, place } of widths) {
        if (table > place) wide.push(`${shown.name}: ${String(table)} px in ${String(place)}`);
      }
    }

    expect(wide).toEqual([]);
  });

  test('the values of the configuration have room on a narrow page', async ({ pageAs }) => {
    const page = await pageAs('admin');
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto('/configuration');
    await untilLive(page);
    const cells = page
      .getByRole('row')
      .filter({ hasText: 'LEASEHOLD_LIMIT_CLIENT' })
      .getByRole('cell');
    const [name, value] = await cells.evaluateAll((all) => all.map((cell) => cell.clientWidth));

    expect(value).toBeGreaterThan((name ?? 0) / 2);
  });

  test('no list counts rows before there are any', async ({ pageAs, seeded, stack }) => {
    const gated = await startGatedConsole(stack);
    gated.set('held');
    const page = await pageAs('admin', { baseURL: gated.url });
    const counted: string[] = [];
    for (const shown of PAGES) {
      await page.goto(shown.path(seeded));
      await page.locator('[aria-busy="true"]').first().waitFor();
      const texts = await page.getByRole('group', { name: /^Pages of/u }).allInnerTexts();
      if (texts.some((text) => /\d/u.test(text))) counted.push(`${shown.name}: ${texts.join()}`);
    }
    await gated.close();

    expect(counted).toEqual([]);
  });

  test('what cannot be seen in a name is shown, and escaped once, wherever its key is', async ({
    pageAs,
    stack,
  }) => {
    const unique = randomUUID().slice(0, 6);
    const key = { namespace: 'e2e.unseen', name: `a\u202eb-${unique}` };
    const shown = `a\\u{202e}b-${unique}`;
    const { backendId } = await stack
      .api('client')
      .keys.connect.mutate({ key, spawn: { program: 'room' }, waitFor: 'ready' });
    const page = await pageAs('operator');
    const drone = `/drones/detail?id=${DRONE_ID}`;
    const lists = [
      ['/keys?q=namespace:e2e.unseen', 'keys'],
      ['/backends?q=namespace:e2e.unseen', 'backends'],
      [drone, 'backends of this drone'],
      [`${drone}&tab=keys`, 'keys of this drone'],
      ['/events?q=namespace:e2e.unseen', 'events'],
    ] as const;
    for (const [path, label] of lists) {
      await page.goto(path);
      await untilLive(page);
      await expect(tableOf(page, label).row(shown).first(), label).toBeVisible();
      await expect(page.locator('main'), label).not.toContainText('\\u{5c}');
    }

    await page.goto(`/backends/detail?id=${backendId}`);
    await untilLive(page);
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await expect(dialog).toContainText(shown);
    await expect(dialog).not.toContainText('\\u{5c}');
  });

  test('the state of a backend is not taken for that of its key', async ({ pageAs, stack }) => {
    const key = { namespace: 'e2e.looks', name: `room-${randomUUID().slice(0, 6)}` };
    await stack
      .api('client')
      .keys.connect.mutate({ key, spawn: { program: 'room' }, waitFor: 'ready' });
    const page = await pageAs('viewer');
    for (const path of [
      `/keys/detail?${new URLSearchParams(key).toString()}`,
      `/keys?q=namespace:e2e.looks ${key.name}`,
    ]) {
      await page.goto(path);
      await untilLive(page);
      const grounds = (text: string) =>
        page
          .locator('main [data-tone="good"]')
          .filter({ hasText: new RegExp(`^${text}$`, 'u'), visible: true })
          .evaluateAll((all) => all.map((one) => getComputedStyle(one).backgroundColor));
      const NONE = 'rgba(0, 0, 0, 0)';
      expect(await grounds('Held')).not.toContain(NONE);
      expect(new Set(await grounds('Ready'))).toEqual(new Set([NONE]));
    }
  });
});

/** By how much of the page what was shown has moved without a person's doing, and what moved most. */
function shiftOf(page: Page): Promise<{ readonly sum: number; readonly by: string }> {
  return page.evaluate(
    () =>
      new Promise<{ sum: number; by: string }>((resolve) => {
        new PerformanceObserver((list, observer) => {
          observer.disconnect();
          const shifts = list.getEntries() as Shift[];
          const own = shifts.filter(({ hadRecentInput }) => !hadRecentInput);
          const most = own.toSorted((one, other) => other.value - one.value)[0];
          const nodes = (most?.sources ?? []).map(({ node }) => {
            const element = node instanceof Element ? node : node?.parentElement;
            return `${element?.tagName ?? ''} "${element?.textContent.slice(0, 40) ?? ''}"`;
          });
          resolve({ sum: own.reduce((sum, { value }) => sum + value, 0), by: nodes.join(', ') });
        }).observe({ type: 'layout-shift', buffered: true });
        // Without an entry it is never called.
        setTimeout(() => resolve({ sum: 0, by: '' }), 250);
      }),
  );
}

/** Of the browser's API, which TypeScript does not know. */
interface Shift extends PerformanceEntry {
  readonly value: number;
  readonly hadRecentInput: boolean;
  readonly sources: readonly { readonly node: Node | null }[];
}

/** Each pair of size and weight of what is visible, with one text that has it. */
function letteringsOn(page: Page): Promise<[string, string][]> {
  return page.evaluate(() => {
    const found = new Map<string, string>();
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
      const text = node.textContent?.trim() ?? '';
      const element = node.parentElement;
      if (text === '' || element === null || !element.checkVisibility()) continue;
      if (element.closest('script, style, .visually-hidden, canvas') !== null) continue;
      const { fontSize, fontWeight } = getComputedStyle(element);
      found.set(`${fontSize} ${fontWeight}`, text.slice(0, 30));
    }
    return [...found];
  });
}
