import type { Page } from '@playwright/test';
import { tableOf, untilLive } from '../fixtures/grants.ts';
import { startStack, type Stack } from '../fixtures/stack.ts';
import { expect, signIn, test } from '../fixtures/test.ts';
import { seedMany } from '../seed/seed-many.ts';

/** Just enough for the pages that are turned. */
const FEW = 1_100;
const MANY = 100_000;
/**
 * How much longer something may take with ninety times as many keys, where it reads one page of them.
 * Both times are taken in the same run: a single time says more about the machine than about the page.
 */
const TIMES_LONGER_MAX = 4;
/** Below this, the other work of the machine counts more than what is measured. */
const MS_MIN = 25;
const ROUNDS = 10;
const LOOK_EVERY_MS = 10;

/** A Leasehold of its own: so many keys would slow down the tests of others. */
test.describe('a hundred thousand keys', () => {
  let large: Stack;

  test.beforeAll(async () => {
    test.setTimeout(120_000);
    large = await startStack({
      name: 'e2e_scale',
    });
    await seedMany(large.sql, FEW);
  });

  test.afterAll(async () => {
    await large.close();
  });

  test('are listed and paged about as fast as eleven hundred', async ({ browser }) => {
    const context = await browser.newContext({ baseURL: large.consoleUrl });
    const page = await context.newPage();
    await signIn(page, large.people.viewer);

    const few = await measure(page, FEW);
    await seedMany(large.sql, MANY, FEW);
    const many = await measure(page, MANY);

    for (const what of ['listMs', 'usableMs', 'pageMs'] as const) {
      const times = Math.max(MS_MIN, many[what]) / Math.max(MS_MIN, few[what]);
      expect(times, what).toBeLessThan(TIMES_LONGER_MAX);
    }
    await context.close();
  });

  /** The median of several times: the best of them would hide a page that is slow more often than not. */
  async function measure(
    page: Page,
    keysCount: number,
  ): Promise<Record<'listMs' | 'usableMs' | 'pageMs', number>> {
    const median = (what: string, times: readonly number[]): number => {
      console.log(`${what} at ${String(keysCount)}: ${times.join(', ')} ms`);
      return [...times].sort((a, b) => a - b)[times.length >> 1] ?? Infinity;
    };
    const lists: Record<string, number> = {};
    for (const sort of ['name', 'grantedAt', 'expiresAt'] as const) {
      const asked = { sort, direction: 'asc', limit: 100 } as const;
      const took = await timesOf(() => large.api('viewer').keys.list.query(asked));
      lists[sort] = median(`keys.list by ${sort}`, took);
    }
    const usable = await timesOf(async () => {
      await page.goto('/keys', { waitUntil: 'commit' });
      await tableOf(page, 'keys').row('session-').first().waitFor();
      await reactsToKeys(page);
    });
    await untilLive(page);
    const seen = new Set<string>();
    const pages = await timesOf(async () => {
      const first = tableOf(page, 'keys').table.locator('tr[data-row] a').first();
      const before = await first.innerText();
      seen.add(before);
      await page.getByRole('button', { name: 'Next', exact: true }).click();
      await expect(first).not.toHaveText(before);
    });
    expect(seen.size).toBe(ROUNDS);
    return {
      listMs: lists['name'] ?? Infinity,
      usableMs: median('keys usable', usable),
      pageMs: median('next pages', pages),
    };
  }
});

async function timesOf(work: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const startedAt = performance.now();
    await work();
    times.push(Math.round(performance.now() - startedAt));
  }
  return times;
}

/** Waits until the page reacts to the keyboard: rows from the server are there before that. */
async function reactsToKeys(page: Page): Promise<void> {
  const isSearching = (): Promise<boolean> =>
    page.getByLabel('Search keys').evaluate((element) => element === document.activeElement);
  await expect
    .poll(
      async () => {
        // Where the search has the focus already, the key would be text.
        if (!(await isSearching())) await page.keyboard.press('/');
        return isSearching();
      },
      { intervals: [LOOK_EVERY_MS] },
    )
    .toBe(true);
}
