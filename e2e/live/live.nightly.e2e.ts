import type { Page, Request } from '@playwright/test';
import { holdLease, openRoom, tableOf, timesOn, untilLive } from '../fixtures/grants.ts';
import { openPage } from '../fixtures/open-page.ts';
import { expect, test } from '../fixtures/test.ts';
import { PAGES, type ConsolePage } from '../pages.ts';

/** Between an event and its row: pages learn of changes once a second. */
const SEEN_WITHIN_MS = 1_500;
/** How many grants are measured; the quickest counts, because what else a machine does only makes a time longer. */
const GRANTS = 5;
/** How often a page that learns of nothing reads what has no event. */
const TIMER_MS = 5_000;
/** How many pages are open at once: as many as two cores can carry. */
const TABS = 5;
/** Only a limit for waiting: without the stream a page asks again every two seconds. */
const STILL_WITHIN_MS = 20_000;

test.describe('live', () => {
  test('a grant made by another client appears within a second, without a reload', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('viewer');
    await page.goto('/keys?q=namespace:e2e.rooms&sort=grantedAt&dir=desc');
    await untilLive(page);
    const stem = `seen-at-once-${String(Date.now())}`;
    let quickestMs = Infinity;

    for (let nth = 1; nth <= GRANTS; nth += 1) {
      const name = `${stem}-${String(nth)}`;
      await stack.api('client').keys.connect.mutate({
        key: { name, namespace: 'e2e.rooms' },
        spawn: { program: 'room' },
        waitFor: 'granted',
      });
      const grantedAt = performance.now();
      await expect(tableOf(page, 'keys').row(name)).toBeVisible();
      quickestMs = Math.min(quickestMs, performance.now() - grantedAt);
    }

    console.log(`a grant was seen ${String(Math.round(quickestMs))} ms after its answer`);
    expect(quickestMs).toBeLessThanOrEqual(SEEN_WITHIN_MS);
  });

  test('a page that shows nothing of what changes reads nothing', async ({ pageAs, stack }) => {
    const stem = `quiet-${String(Date.now())}`;
    const quiet = await holdLease(stack, { key: stem, holder: 'quiet' });
    const [page, other] = [await pageAs('viewer'), await pageAs('viewer')];
    await page.goto(quiet.path);
    await untilLive(page);
    await other.goto('/leases?q=namespace:e2e.jobs');
    await untilLive(other);
    let readCount = 0;
    page.on('request', (request) => {
      if (new URL(request.url()).pathname === '/trpc/leases.history') readCount += 1;
    });

    const beganAtMs = performance.now();
    for (const place of [1, 2, 3, 4, 5]) {
      const { name } = await holdLease(stack, { key: `${stem}-${String(place)}`, holder: 'busy' });
      await expect(tableOf(other, 'leases').row(name)).toBeVisible();
    }
    const timerCount = Math.floor((performance.now() - beganAtMs) / TIMER_MS) + 1;
    expect(readCount).toBeLessThanOrEqual(timerCount);

    const { leaseId, fencingToken } = quiet;
    await stack.api('client').leases.release.mutate({ leaseId, fencingToken });
    await expect(page.getByRole('heading', { level: 1 }).locator('..')).toContainText('Free');
  });

  test('each page without live data is marked as stale, its times stand still, and it recovers', async ({
    pageAs,
    seeded,
    stack,
  }) => {
    test.setTimeout(300_000);
    // Each tab has a context of its own: the tabs of one context share six connections.
    const tabs = await Promise.all(Array.from({ length: TABS }, () => pageAs('admin')));
    for (let first = 0; first < PAGES.length; first += TABS) {
      const shown = PAGES.slice(first, first + TABS);
      const pages = tabs.slice(0, shown.length);
      await Promise.all(pages.map((page, i) => openPage(page, shown[i] as ConsolePage, seeded)));

      stack.proxy.refuse();
      await Promise.all(pages.map(checkStale));

      stack.proxy.heal();
      for (const page of pages) {
        await expect(page.getByRole('status').filter({ hasText: /^Live/ })).toBeVisible();
        await expect(page.getByRole('alert').filter({ hasText: /^Stale/ })).toHaveCount(0);
      }
    }
  });

  test('a lost stream of events is shown, and lists are polled on a timer meanwhile', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('viewer');
    // Only the stream: everything else is answered.
    await page.route('**/trpc/events.changes**', (route) => route.abort());
    await page.goto('/keys?q=namespace:e2e.rooms');
    await expect(page.getByRole('status').filter({ hasText: 'Not live' })).toBeVisible();

    const room = await openRoom(stack, 'polled');
    await expect(tableOf(page, 'keys').row(room.name)).toBeVisible();

    await page.unroute('**/trpc/events.changes**');
    await expect(page.getByRole('status').filter({ hasText: /^Live/ })).toBeVisible();
  });

  test('the backend of a hidden tab is not followed: its connection is free for other tabs', async ({
    pageAs,
    stack,
  }) => {
    const room = await openRoom(stack, 'hidden');
    const page = await pageAs('viewer');
    const isStream = (request: Request): boolean => request.url().includes('/trpc/backends.watch');
    const begun = page.waitForRequest(isStream);
    await page.goto(`/backends/detail?id=${room.backendId}`);
    await begun;

    const ended = page.waitForEvent('requestfailed', isStream);
    await page.evaluate(() => {
      Object.defineProperty(document, 'visibilityState', { get: () => 'hidden' });
      document.dispatchEvent(new Event('visibilitychange'));
    });
    await ended;
  });

  test('a paused page does not change until it is resumed', async ({ pageAs, stack }) => {
    const page = await pageAs('viewer');
    await page.goto('/keys?q=namespace:e2e.rooms&sort=grantedAt&dir=desc');
    await untilLive(page);
    await page.getByRole('button', { name: 'Pause live changes' }).click();

    const room = await openRoom(stack, 'while-paused');
    await expect(page.getByRole('status').filter({ hasText: /Paused · \d/ })).toBeVisible();
    await expect(tableOf(page, 'keys').row(room.name)).toBeHidden();

    await page.getByRole('button', { name: 'Resume live changes' }).click();
    await expect(tableOf(page, 'keys').row(room.name)).toBeVisible();
  });
});

/** A page without live data: the age of its data grows, and no other time on it moves. */
async function checkStale(page: Page): Promise<void> {
  const stale = page.getByRole('alert').filter({ hasText: /^Stale/ });
  await expect(stale).toHaveCount(1);
  await expect(page.getByRole('status').filter({ hasText: 'Not live' })).toBeVisible();
  await expect(page.getByRole('status').filter({ hasText: /^Live/ })).toHaveCount(0);
  // The reads of a page fail one after the other, and each part stands still at its own last answer.
  await expect(async () => {
    const [age, times] = [await stale.innerText(), await timesOn(page)];
    await expect(stale).not.toHaveText(age);
    expect(await timesOn(page)).toEqual(times);
  }).toPass({ timeout: STILL_WITHIN_MS });
}
