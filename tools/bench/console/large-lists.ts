import type { Page } from '@playwright/test';
import { median } from '../rig/rounds.ts';
import type { ConsoleStack } from './console-stack.ts';
import { untilLive } from './page-use.ts';

/** How long the key list and the search take on a large table, in milliseconds. */
export interface LargeTimes {
  /** From the request of the first page of keys to its answer: at the controller. */
  readonly serverMs: number;
  readonly serverWorstMs: number;
  /** From the request of the page until its rows are there and it is live. */
  readonly interactiveMs: number;
  readonly searchMs: number;
  readonly searchWorstMs: number;
  /** What the palette of this version calls. */
  readonly searchedBy: string;
}

const ROUNDS = 7;
const PAGE_ROWS = 100;
const RECENT_MS = 3_600_000;
const PALETTE_ROWS = 5;
const NOT_FOUND = 404;

/** `seededCount`: how many keys there are, called `room-0`, `room-1` and so on. */
export async function measureLarge(
  page: Page,
  stack: ConsoleStack,
  seededCount: number,
): Promise<LargeTimes> {
  const list = { limit: PAGE_ROWS, sort: 'name', direction: 'asc', endedWithinMs: RECENT_MS };
  const serverMs = await timesOf(() => ask(stack, 'keys.list', list));
  const interactiveMs = await timesOf(async () => {
    await page.goto(`${stack.url}/keys`, { waitUntil: 'commit' });
    await page
      .getByRole('region', { name: 'keys', exact: true })
      .getByRole('link')
      .first()
      .waitFor();
    await untilLive(page);
  });
  const { searchedBy, search } = await paletteOf(stack);
  const searchMs: number[] = [];
  for (const name of namesOf(seededCount)) searchMs.push(...(await timesOf(() => search(name))));
  return {
    ...{ serverMs: median(serverMs), serverWorstMs: Math.max(...serverMs) },
    ...{ interactiveMs: median(interactiveMs), searchedBy },
    ...{ searchMs: median(searchMs), searchWorstMs: Math.max(...searchMs) },
  };
}

/** Parts of names: a rare one, a common one, one in the middle, and one that nothing has. */
function namesOf(seededCount: number): string[] {
  return [
    `room-${String(seededCount - 7)}`,
    'room',
    `oom-${String(seededCount - 7)}`,
    'no-such-name',
  ];
}

/** The palette's call; before there was one for it, the palette asked each list for names that begin so. */
async function paletteOf(stack: ConsoleStack) {
  const isThere = await ask(stack, 'search.find', { text: 'room' }).then(
    () => true,
    () => false,
  );
  if (isThere) {
    return {
      searchedBy: 'search.find',
      search: (text: string) => ask(stack, 'search.find', { text }),
    };
  }
  const lists = ['keys.list', 'leases.list', 'environments.list', 'reservations.list'];
  const search = (prefix: string) =>
    Promise.all(lists.map((each) => ask(stack, each, { prefix, limit: PALETTE_ROWS })));
  return { searchedBy: 'four lists, by the beginning alone', search };
}

async function ask(stack: ConsoleStack, procedure: string, input: object): Promise<unknown> {
  const asked = encodeURIComponent(JSON.stringify(input));
  const answer = await fetch(`${stack.controllerUrl}/trpc/${procedure}?input=${asked}`, {
    headers: { authorization: `Bearer ${stack.token}` },
  });
  const body: unknown = await answer.json();
  if (answer.ok) return body;
  const kind = answer.status === NOT_FOUND ? 'is not there' : 'failed';
  throw new Error(`${procedure} ${kind}: ${JSON.stringify(body)}`);
}

async function timesOf(work: () => Promise<unknown>): Promise<number[]> {
  const tookMs: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const beganAtMs = performance.now();
    await work();
    tookMs.push(performance.now() - beganAtMs);
  }
  return tookMs;
}
