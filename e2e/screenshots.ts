/** Takes the pictures; `tools/screenshots.mjs` says which. */
import { mkdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Page } from '@playwright/test';
import sharp from 'sharp';
import { ROOT } from './browser.config.ts';
import type { Stack } from './fixtures/stack.ts';
import { expect, test } from './fixtures/test.ts';
import { PAGES, type ConsolePage } from './pages.ts';
import type { Seeded } from './seed/seed-realistic.ts';

/** For the README. */
const PICTURES = ['overview', 'keys', 'key', 'leases', 'environments', 'reservation', 'drone'];
const SCHEMES = ['light', 'dark'] as const;
const README_SIZE = { width: 1440, height: 900 };
const REVIEW_SIZES = [
  README_SIZE,
  { width: 1024, height: 768 },
  { width: 390, height: 844 },
] as const;
const PICTURE_BYTES_MAX = 200 * 1_024;

const reviewFolder = process.env['LEASEHOLD_SCREENSHOTS_ALL'];
const only = process.env['LEASEHOLD_SCREENSHOTS_ONLY']?.split(',');

// Keys with the ladder of an installation, not with the fast one of tests.
test.use({ preset: 'standard' });

// No `test.skip` inside a test: its fixtures are made before that, and no page would be empty.
if (reviewFolder === undefined) {
  test('pictures for the README', async ({ pageAs, seeded, stack }) => {
    await makeRooms(stack);
    const page = await pageAs('operator', { viewport: README_SIZE, deviceScaleFactor: 1 });
    const folder = path.join(ROOT, 'docs', 'pictures');
    for (const shown of wanted((one) => PICTURES.includes(one.name))) {
      for (const scheme of SCHEMES) {
        await open(page, shown, { seeded, scheme });
        const file = path.join(folder, `${shown.name}-${scheme}.png`);
        await take(page, file, { isFullPage: false });
        const { size } = await stat(file);
        expect.soft(size, `${path.basename(file)} is too large`).toBeLessThan(PICTURE_BYTES_MAX);
      }
    }
  });
} else {
  test('every page for a review, without data', async ({ pageAs }) => {
    await review(pageAs, 'empty', undefined);
  });

  test('every page for a review, with data', async ({ pageAs, seeded, stack }) => {
    await makeRooms(stack);
    await review(pageAs, 'full', seeded);
  });
}

function wanted(isWanted: (page: ConsolePage) => boolean): ConsolePage[] {
  return PAGES.filter((page) => isWanted(page) && (only === undefined || only.includes(page.name)));
}

async function review(
  pageAs: (role: 'admin') => Promise<Page>,
  fill: 'empty' | 'full',
  seeded: Seeded | undefined,
): Promise<void> {
  const page = await pageAs('admin');
  for (const shown of wanted((one) => seeded !== undefined || one.isDetail !== true)) {
    for (const scheme of SCHEMES) {
      for (const size of REVIEW_SIZES) {
        await page.setViewportSize(size);
        await open(page, shown, { seeded, scheme });
        const name = `${shown.name}-${fill}-${scheme}-${String(size.width)}.png`;
        await take(page, path.join(reviewFolder ?? '', name), { isFullPage: true });
      }
    }
  }
}

async function open(
  page: Page,
  shown: ConsolePage,
  { seeded, scheme }: { seeded: Seeded | undefined; scheme: 'light' | 'dark' },
): Promise<void> {
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
  await page.goto(shown.path(seeded ?? NO_SEED));
  await page.getByRole('heading', { level: 1, name: shown.heading }).waitFor();
  await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
  await page.getByRole('status').filter({ hasText: 'Live' }).waitFor();
}

/** Pages of lists do not use the seed. */
const NO_SEED = {} as Seeded;

async function take(page: Page, file: string, of: { isFullPage: boolean }): Promise<void> {
  const picture = await page.screenshot({
    fullPage: of.isFullPage,
    caret: 'hide',
    animations: 'disabled',
  });
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, of.isFullPage ? picture : await smaller(picture));
}

/** A palette of 256 colours is nearly enough for an interface, and a quarter of the size. */
function smaller(picture: Buffer): Promise<Buffer> {
  return sharp(picture).png({ palette: true, effort: 10, colours: 256 }).toBuffer();
}

const ROOMS = ['standup-web', 'standup-payments', 'all-hands', 'interview-11-21', 'incident-2240'];

/** Keys with real backends on the real drone. */
async function makeRooms(stack: Pick<Stack, 'api'>): Promise<void> {
  for (const name of ROOMS) {
    await stack.api('client').keys.connect.mutate({
      key: { name, namespace: 'rooms.eu', tag: 'v7' },
      spawn: { program: 'room' },
      waitFor: 'ready',
    });
  }
}
