import type { Page } from '@playwright/test';
import { untilLive } from '../fixtures/grants.ts';
import { expect, test } from '../fixtures/test.ts';

/** What a person does on a page, step by step. The address must keep each step. */
interface Journey {
  readonly page: string;
  readonly path: string;
  readonly role?: 'admin';
  readonly steps: readonly ((page: Page) => Promise<void>)[];
}

const search =
  (label: string, text: string) =>
  async (page: Page): Promise<void> => {
    const box = page.getByRole('searchbox', { name: label }).or(page.getByLabel(label));
    await box.first().fill(text);
    await box.first().press('Enter');
  };
const sortBy =
  (column: string) =>
  async (page: Page): Promise<void> => {
    await page.getByRole('columnheader', { name: column }).getByRole('button').click();
  };
const tab =
  (name: string) =>
  async (page: Page): Promise<void> => {
    const wanted = page.getByRole('tab', { name, exact: true });
    await wanted.click();
    // The address changes before the tab does.
    await expect(wanted).toHaveAttribute('aria-selected', 'true');
  };
/** In a filter's menu: `menuitemcheckbox` where several may be chosen. */
const choose =
  (filter: string, option: string, role: 'menuitemradio' | 'menuitemcheckbox' = 'menuitemradio') =>
  async (page: Page): Promise<void> => {
    await page.getByRole('button', { name: new RegExp(`^${filter}(:|$)`) }).click();
    await page.getByRole(role, { name: option, exact: true }).click();
    await page.keyboard.press('Escape');
  };
/** The time that the list is about; it stays relative in the address. */
const lastTime =
  (label: string) =>
  async (page: Page): Promise<void> => {
    await page.getByRole('button', { name: 'Any time' }).click();
    await page.getByRole('button', { name: label }).click();
    await expect(page).toHaveURL(/range=\d+[hd]/);
  };
const next = async (page: Page): Promise<void> => {
  await page.getByRole('button', { name: 'Next', exact: true }).click();
};

const JOURNEYS: readonly Journey[] = [
  {
    page: 'keys',
    path: '/keys',
    steps: [next, search('Search keys', 'namespace:boards.guest'), sortBy('Granted')],
  },
  { page: 'leases', path: '/leases', steps: [tab('Waits'), tab('Namespaces'), tab('List')] },
  {
    page: 'environments',
    path: '/environments',
    steps: [search('Search environments', 'namespace:shop'), sortBy('Since')],
  },
  {
    page: 'reservations',
    path: '/reservations',
    steps: [
      next,
      choose('State', 'Moved on'),
      search('Search reservations', 'namespace:boards.guest'),
    ],
  },
  { page: 'drones', path: '/drones', steps: [choose('Status', 'Ready'), choose('Status', 'Lost')] },
  { page: 'a drone', path: '/drones/detail?id=drone-fra-3', steps: [tab('Keys'), tab('Backends')] },
  {
    page: 'backends',
    path: '/backends',
    steps: [search('Search backends', 'program:board'), choose('Status', 'Ready')],
  },
  {
    page: 'events',
    // The newest event of all would change with what other tests have left behind.
    path: '/events?q=namespace:shop',
    steps: [
      choose('Type', 'Environments'),
      choose('Event', 'Granted', 'menuitemcheckbox'),
      lastTime('Last 7 days'),
      search('Search events', 'namespace:boards'),
    ],
  },
  {
    page: 'audit',
    path: '/audit',
    steps: [
      choose('Action', 'Revoked a key'),
      lastTime('Last 24 h'),
      search('Search the audit', 'actor:nobody'),
    ],
  },
  { page: 'access', path: '/access', role: 'admin', steps: [tab('People'), tab('API tokens')] },
];

test.describe('the address keeps what a page shows', () => {
  for (const journey of JOURNEYS) {
    test(`${journey.page}: after reload, Back and Forward`, async ({ pageAs, seeded }) => {
      expect(seeded.keys.count).toBeGreaterThan(200);
      const page = await pageAs(journey.role ?? 'operator');
      await page.goto(journey.path);
      await untilLive(page);
      const seen = [await stateOf(page)];
      for (const step of journey.steps) {
        const before = page.url();
        await step(page);
        await expect(page).not.toHaveURL(before);
        await untilLive(page);
        seen.push(await stateOf(page));
      }

      await page.reload();
      await untilLive(page);
      expect(await stateOf(page)).toEqual(seen.at(-1));

      for (const state of seen.slice(0, -1).reverse()) {
        await travel(page, () => page.goBack());
        await expect.poll(() => stateIfThere(page)).toEqual(state);
      }
      for (const state of seen.slice(1)) {
        await travel(page, () => page.goForward());
        await expect.poll(() => stateIfThere(page)).toEqual(state);
      }
    });
  }
});

/**
 * One step through the history, however soon after the previous one. Next loads a page again when
 * steps outrun its server twice; a step that is lost by this is repeated, as a person would do.
 */
async function travel(page: Page, go: () => Promise<unknown>): Promise<void> {
  const before = page.url();
  try {
    await go();
  } catch (error) {
    if (!String(error).includes('net::ERR_ABORTED')) throw error;
    await untilLive(page);
    if (page.url() === before) await go();
  }
}

/** Undefined while the browser leaves the page: a step across a reload loads it again. */
function stateIfThere(page: Page): Promise<unknown> {
  return stateOf(page).catch(() => undefined);
}

/** What the page shows, as a person sees it. */
async function stateOf(page: Page): Promise<unknown> {
  return page.evaluate(() => ({
    query: window.location.search,
    searches: [...document.querySelectorAll('input')]
      .filter((input) => input.type !== 'checkbox')
      .map((input) => input.value),
    sorted: [...document.querySelectorAll('th[aria-sort]')].map(
      (head) => `${head.textContent}: ${head.getAttribute('aria-sort') ?? ''}`,
    ),
    tabs: [...document.querySelectorAll('[role="tab"][aria-selected="true"]')].map(
      (chosen) => chosen.textContent,
    ),
    firstRow: document.querySelector('tr[data-row] a')?.textContent ?? null,
  }));
}
