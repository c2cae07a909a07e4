import type { Locator, Page, Request } from '@playwright/test';
import { holdLease, timesOn, untilLive } from '../fixtures/grants.ts';
import type { Stack } from '../fixtures/stack.ts';
import { expect, test } from '../fixtures/test.ts';

/** How far the browser's clock is moved ahead; the database clock is not moved. */
const LATER_MS = 40_000;

test.describe('nothing is shown as newer than it is', () => {
  test('a page that is opened again without a controller shows its true age', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('viewer');
    const beganAtMs = Date.now();
    const { name } = await openHeld(page, stack, 'come-back-to');
    await goTo(page, 'Drones');

    stack.proxy.refuse();
    try {
      await page.clock.fastForward(LATER_MS);
      await page.goBack();
      await expect(page.getByRole('heading', { level: 1, name })).toBeVisible();
      await expect(stale(page)).toContainText(
        /This is how it was (?:[4-9]\d s|\d+ min(?: \d+ s)?) ago/,
      );
      expectLater(secondsIn(await stale(page).innerText()), beganAtMs);
    } finally {
      stack.proxy.heal();
    }
  });

  test('times stand still behind a dialog that is open for long, and cancelling it raises no alarm', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('operator');
    const reads = readsUnderWay(page);
    const beganAtMs = Date.now();
    await openHeld(page, stack, 'thought-about');
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    await expect(page.getByRole('dialog')).toBeVisible();
    // What was asked before is still answered, and shown as of its answer; nothing more is asked.
    await expect.poll(() => reads.size).toBe(0);
    // An answer is rendered by a timer of the page, which must not first run out behind the jump.
    await page.clock.runFor(100);
    // The dialog asks by itself what has become of the lease; that would be newer, and shown.
    await page.route(/\/trpc\/[^?]*leases\.get\b/, () => undefined);
    const times = await timesOn(page);
    await page.clock.fastForward(LATER_MS);
    const age = page.getByText(/^as of (?:[4-9]\d s|\d+ min(?: \d+ s)?) ago/).first();
    await expect(age).toBeVisible();
    expectLater(secondsIn(await age.innerText()), beganAtMs);
    // The lease is renewed meanwhile, but not read: it must not seem to run out.
    expect(await timesOn(page)).toEqual(times);

    await page.evaluate(() => {
      new MutationObserver(() => {
        if (document.querySelector('main [role="alert"]') === null) return;
        document.documentElement.dataset['alarm'] = 'raised';
      }).observe(document.body, { childList: true, subtree: true });
    });
    // What waits for its answer goes on now.
    await page.unrouteAll();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();

    await expect(page.getByText(/^as of (just now|\d s ago)/).first()).toBeVisible();
    await expect(page.locator('html')).not.toHaveAttribute('data-alarm');
  });

  test('while live changes are paused, a page that is opened later counts from its own time', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('viewer');
    await page.goto('/drones');
    await untilLive(page);
    await page.getByRole('button', { name: 'Pause live changes' }).click();
    const pausedAt = Date.now();
    await expect.poll(() => Date.now() - pausedAt).toBeGreaterThan(3_000);
    const { name } = await holdLease(stack, { key: 'paused-then-held', holder: 'somebody' });

    await goTo(page, 'Leases');
    await page.getByLabel(/^Search/).fill(name);
    await page.getByLabel(/^Search/).press('Enter');
    const row = page.getByRole('row').filter({ hasText: name });
    await expect(row).toContainText(/(9 min \d+ s|10 min) left/);
  });

  test('a page whose first read fails keeps showing the failure, and is not marked as stale', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('viewer');
    await page.goto('/drones');
    await untilLive(page);
    stack.proxy.refuse();
    try {
      await goTo(page, 'Audit');
      await goTo(page, 'Keys');
      const failure = page.getByRole('alert').filter({ hasText: 'Could not read the keys' });
      await expect(failure).toBeVisible();
      const button = await failure.getByRole('button', { name: 'Try again' }).elementHandle();
      await page.waitForResponse((response) => response.url().includes('/trpc/keys.list'));
      await page.waitForResponse((response) => response.url().includes('/trpc/keys.list'));
      expect(await button.evaluate((element) => element.isConnected)).toBe(true);
      await expect(stale(page)).toHaveCount(0);
    } finally {
      stack.proxy.heal();
    }
    await expect(page.getByRole('region', { name: 'keys', exact: true })).toBeVisible();
  });

  test('a list that is not read because of its search shows no rows, and is not called stale', async ({
    pageAs,
    stack,
  }) => {
    const { name } = await holdLease(stack, { key: 'searched-for', holder: 'somebody' });
    const page = await pageAs('viewer');
    await page.clock.install();
    await page.goto(`/leases?q=${name}`);
    await untilLive(page);
    const row = page.getByRole('row').filter({ hasText: name });
    await expect(row).toBeVisible();
    await page.getByLabel(/^Search/).fill('phase:nonsense');
    await page.getByLabel(/^Search/).press('Enter');
    await expect(row).toHaveCount(0);

    await page.clock.fastForward(LATER_MS);
    await expect(page.locator('tr[data-row]')).toHaveCount(0);
    await expect(stale(page)).toHaveCount(0);
  });

  test('a page that cannot be read again shows one incident id, not another one with each retry', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('viewer');
    await page.goto('/drones');
    await untilLive(page);
    await stack.sql.query('alter table "drone" rename to "drone_gone"');
    try {
      await expect(stale(page).getByRole('button', { name: 'Copy the incident id' })).toBeVisible();
      const said = await stale(page).locator('[title]').getAttribute('title');
      await page.waitForResponse((response) => response.url().includes('/trpc/drones.list'));
      await page.waitForResponse((response) => response.url().includes('/trpc/drones.list'));
      await expect(stale(page).locator('[title]')).toHaveAttribute('title', said ?? '');
    } finally {
      await stack.sql.query('alter table "drone_gone" rename to "drone"');
    }
    await expect(stale(page)).toHaveCount(0);
  });
});

function stale(page: Page): Locator {
  return page.getByRole('alert').filter({ hasText: /^Stale/ });
}

/** The age that a text names, as `48 s ago` or `1 min 2 s ago`. */
function secondsIn(text: string): number {
  const [, minutes = '0', seconds = '0'] = /(?:(\d+) min ?)?(?:(\d+) s)? ago/u.exec(text) ?? [];
  return Number(minutes) * 60 + Number(seconds);
}

/** An age is what the clock was moved ahead, and at most as much more as the test has really taken. */
function expectLater(seconds: number, beganAtMs: number): void {
  expect(seconds).toBeGreaterThanOrEqual(LATER_MS / 1_000);
  expect(seconds).toBeLessThanOrEqual((LATER_MS + Date.now() - beganAtMs) / 1_000);
}

/** What a page has asked and has no answer to yet, without the stream of events, which never ends. */
function readsUnderWay(page: Page): ReadonlySet<Request> {
  const reads = new Set<Request>();
  page.on('request', (request) => {
    const { pathname } = new URL(request.url());
    if (pathname.startsWith('/trpc/') && !pathname.startsWith('/trpc/events.')) reads.add(request);
  });
  page.on('requestfinished', (request) => reads.delete(request));
  page.on('requestfailed', (request) => reads.delete(request));
  return reads;
}

/** Opens a lease that somebody holds, with clocks that can be set. */
async function openHeld(page: Page, stack: Stack, key: string) {
  const lease = await holdLease(stack, { key, holder: 'somebody' });
  await page.clock.install();
  await page.goto(lease.path);
  await untilLive(page);
  // Its parts are read once the lease itself is there.
  await expect(page.getByRole('heading', { level: 1, name: lease.name })).toBeVisible();
  await expect(page.getByRole('main')).toContainText('granted');
  await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
  return lease;
}

/** Follows a link, as people do: the console keeps the data that it has read. */
async function goTo(page: Page, name: string): Promise<void> {
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name }).click();
  await expect(page.getByRole('heading', { level: 1, name })).toBeVisible();
}
