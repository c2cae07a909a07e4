import { CLUSTER_VARIABLE } from './fixtures/cluster-setup.ts';
import { tableOf, untilLive } from './fixtures/grants.ts';
import { startStack, type Stack } from './fixtures/stack.ts';
import { expect, signIn, test } from './fixtures/test.ts';
import { seedMany } from './seed/seed-many.ts';

const KEYS_COUNT = 100_000;
const FIRST_PAGE_MS_MAX = 300;
const INTERACTIVE_MS_MAX = 1_000;
const ROUNDS = 10;

/** A Leasehold of its own: so many keys would slow down the tests of others. */
test.describe('a hundred thousand keys', () => {
  let large: Stack;

  test.beforeAll(async ({}, info) => {
    test.setTimeout(120_000);
    large = await startStack({
      clusterUrl: process.env[CLUSTER_VARIABLE] ?? '',
      name: 'e2e_scale',
      workerIndex: info.parallelIndex + 8,
    });
    await seedMany(large.sql, KEYS_COUNT);
  });

  test.afterAll(async () => {
    await large.close();
  });

  test('the first page in less than 300 ms in the controller, usable in less than a second', async ({
    browser,
  }) => {
    const orders = [
      { sort: 'name', direction: 'asc' },
      { sort: 'grantedAt', direction: 'desc' },
      { sort: 'expiresAt', direction: 'asc' },
    ] as const;
    for (const order of orders) {
      const tookMs = await timesOf(() =>
        large.api('viewer').keys.list.query({ ...order, limit: 100 }),
      );
      console.log(`keys.list by ${order.sort} at ${String(KEYS_COUNT)}: ${tookMs.join(', ')} ms`);
      expect(median(tookMs)).toBeLessThan(FIRST_PAGE_MS_MAX);
    }

    const context = await browser.newContext({ baseURL: large.url });
    const page = await context.newPage();
    await signIn(page, large.people.viewer);
    const usableMs = await timesOf(async () => {
      await page.goto('/keys', { waitUntil: 'commit' });
      await tableOf(page, 'keys').row('session-').first().waitFor();
      // It answers to the keyboard.
      await page.keyboard.press('/');
      await expect(page.getByLabel('Search keys')).toBeFocused();
    });
    console.log(`keys usable at ${String(KEYS_COUNT)}: ${usableMs.join(', ')} ms`);
    expect(best(usableMs)).toBeLessThan(INTERACTIVE_MS_MAX);

    await untilLive(page);
    const seen = new Set<string>();
    const pageMs = await timesOf(async () => {
      const first = tableOf(page, 'keys').table.locator('tr[data-row] a').first();
      const before = await first.innerText();
      seen.add(before);
      await page.getByRole('button', { name: 'Next', exact: true }).click();
      await expect(first).not.toHaveText(before);
    });
    console.log(`next pages at ${String(KEYS_COUNT)}: ${pageMs.join(', ')} ms`);
    expect(seen.size).toBe(ROUNDS);
    expect(best(pageMs)).toBeLessThan(INTERACTIVE_MS_MAX);
    await context.close();
  });
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

function median(times: readonly number[]): number {
  return [...times].sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0;
}

/** What else a machine does only adds to a time: the shortest says most of the page itself. */
function best(times: readonly number[]): number {
  return Math.min(...times);
}
