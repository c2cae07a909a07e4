import { existsSync } from 'node:fs';
import path from 'node:path';
import { findMigrationsDir, migrate } from '@leasehold/keys-core/postgres';
import { chromium, type Browser, type Page } from '@playwright/test';
import { browser as settings } from '../../../e2e/browser.config.ts';
import { tableOf, type Bound, type Figure, type Quantity, type Unit } from '../rig/figures.ts';
import { atMost } from '../rig/quantities.ts';
import type { BenchDatabase, Rig } from '../rig/rig.ts';
import { seedLists } from '../rig/seed-lists.ts';
import { buildCommit, presentBuild, type ConsoleBuild } from './commit-build.ts';
import { startConsoleStack, type ConsoleStack } from './console-stack.ts';
import { measureLarge, type LargeTimes } from './large-lists.ts';
import { measurePageUse, signIn, type MeasuredPage, type PageUse } from './page-use.ts';
import { insertDrone, insertHour, startTraffic } from './traffic.ts';

const GRANTS_PER_SECOND = 20;
const PERCENT_MAX = 10;
const KILOBYTES_MAX = 20;
const TASK_MS_MAX = 100;
const SEARCH_MS_MAX = 100;

const PAGES: readonly MeasuredPage[] = [
  { name: 'overview', path: '/' },
  { name: 'keys', path: '/keys' },
  { name: 'keys, newest first', path: '/keys?sort=grantedAt&dir=desc' },
  {
    name: 'a key that nothing happens to',
    path: '/keys/detail?namespace=team-0.app-0&name=room-0',
  },
  { name: 'events', path: '/events' },
];

/** What an open page of the console uses, and how quick its lists are, beside those of another commit. */
export async function measureConsole(rig: Rig): Promise<Figure[]> {
  const builds = [await buildCommit(rig.against), presentBuild()];
  const browser = await chromium.launch(settings.launchOptions);
  rig.onClose(() => browser.close());
  const uses = await onEach(rig, rig.isQuick ? 5_000 : 100_000, builds, (part) =>
    usesOf(rig, browser, part),
  );
  const before = builds[0]?.name ?? '';
  const figures = figuresOfUse(uses, before);
  // The next part takes minutes: these are there in any case.
  process.stderr.write(`\n${tableOf(figures)}\n`);
  const large = await onEach(rig, rig.isQuick ? 10_000 : 1_000_000, builds, (part) =>
    timesOf(browser, part),
  );
  return [...figures, ...figuresOfLarge(large, before)];
}

/** A build that runs on a database of its own schema, with so many keys. */
interface Part {
  readonly stack: ConsoleStack;
  readonly database: BenchDatabase;
  readonly keyCount: number;
}

/** Measures each build in turn on one database, which is migrated in between as in an upgrade. */
async function onEach<T>(
  rig: Rig,
  keyCount: number,
  builds: readonly ConsoleBuild[],
  measure: (part: Part) => Promise<T>,
): Promise<T[]> {
  const results: T[] = [];
  let database: BenchDatabase | undefined;
  for (const build of builds) {
    const migrations = migrationsOf(build);
    if (database === undefined) {
      database = await rig.database(`bench_console_${String(keyCount)}`, migrations);
      await seedLists(database.pool, keyCount);
      await insertDrone(database.pool);
    } else {
      await migrate(database.url, migrations);
      await database.pool.query('vacuum analyze');
    }
    process.stderr.write(`${build.name}, ${String(keyCount)} keys …\n`);
    const stack = await startConsoleStack(rig, database, build);
    results.push(await measure({ stack, database, keyCount }));
    await stack.stop();
  }
  return results;
}

function migrationsOf({ folder }: ConsoleBuild): string {
  const theirs = path.join(folder, 'prisma', 'migrations');
  return existsSync(theirs) ? theirs : findMigrationsDir();
}

async function usesOf(rig: Rig, browser: Browser, { stack, database }: Part): Promise<PageUse[]> {
  const times = { settleMs: 4_000, measureMs: rig.isQuick ? 4_000 : 15_000 };
  await insertHour(database.pool, GRANTS_PER_SECOND);
  const traffic = startTraffic(stack, GRANTS_PER_SECOND);
  const uses: PageUse[] = [];
  try {
    await withPage(browser, stack, async (page) => {
      for (const each of PAGES) {
        uses.push(await measurePageUse({ browser, page, stack }, each, times));
      }
    });
  } finally {
    const { grantCount, failures } = await traffic.stop();
    const [first] = failures;
    process.stderr.write(`${String(grantCount)} grants, ${String(failures.length)} failed\n`);
    if (first !== undefined) process.stderr.write(`${first}\n`);
  }
  return uses;
}

function timesOf(browser: Browser, { stack, keyCount }: Part): Promise<LargeTimes> {
  return withPage(browser, stack, (page) => measureLarge(page, stack, keyCount));
}

async function withPage<T>(
  browser: Browser,
  stack: ConsoleStack,
  work: (page: Page) => Promise<T>,
): Promise<T> {
  const context = await browser.newContext({ viewport: { width: 1_440, height: 900 } });
  try {
    const page = await context.newPage();
    await signIn(page, stack);
    return await work(page);
  } finally {
    await context.close();
  }
}

interface Row<T> {
  readonly what: string;
  readonly unit: Unit;
  readonly of: (measured: T) => number;
  readonly required?: Bound;
}

const USE_ROWS: readonly Row<PageUse>[] = [
  {
    what: 'processor, browser included',
    unit: '%',
    of: (use) => use.rendererPercent + use.browserPercent,
    required: atMost(PERCENT_MAX),
  },
  { what: 'processor, the page alone', unit: '%', of: (use) => use.rendererPercent },
  { what: 'processor of the console', unit: '%', of: (use) => use.consolePercent },
  {
    what: 'processor of the controller, grants included',
    unit: '%',
    of: (use) => use.controllerPercent,
  },
  {
    what: 'received',
    unit: 'kB/s',
    of: (use) => use.bytesPerSecond / 1_000,
    required: atMost(KILOBYTES_MAX),
  },
  {
    what: 'longest task',
    unit: 'ms',
    of: (use) => use.longestTaskMs,
    required: atMost(TASK_MS_MAX),
  },
];

const LARGE_ROWS: readonly Row<LargeTimes>[] = [
  { what: 'first page of keys, at the controller, median', unit: 'ms', of: (it) => it.serverMs },
  {
    what: 'first page of keys, at the controller, worst',
    unit: 'ms',
    of: (it) => it.serverWorstMs,
  },
  { what: 'key list until it is live, median', unit: 'ms', of: (it) => it.interactiveMs },
  {
    what: 'search as the palette does, median',
    unit: 'ms',
    of: (it) => it.searchMs,
    required: atMost(SEARCH_MS_MAX),
  },
  { what: 'search as the palette does, worst', unit: 'ms', of: (it) => it.searchWorstMs },
];

function figuresOfUse(uses: readonly PageUse[][], before: string): Figure[] {
  const [theirs = [], ours = []] = uses;
  return PAGES.flatMap(({ name }, index) =>
    figuresOf(USE_ROWS, [theirs[index], ours[index]], { before, of: name }),
  );
}

function figuresOfLarge([theirs, ours]: readonly LargeTimes[], before: string): Figure[] {
  const by = [ours, theirs].map((times) => times?.searchedBy ?? '?').join(', against ');
  process.stderr.write(`the palette calls ${by}\n`);
  return figuresOf(LARGE_ROWS, [theirs, ours], { before, of: 'largest' });
}

function figuresOf<T>(
  rows: readonly Row<T>[],
  [theirs, ours]: readonly [T | undefined, T | undefined],
  { before, of }: { readonly before: string; readonly of: string },
): Figure[] {
  if (theirs === undefined || ours === undefined) return [];
  return rows.map(({ what, unit, of: read, required }) => {
    const quantity = (value: number): Quantity => ({ value, unit });
    return {
      what: `${of}: ${what}`,
      ours: quantity(read(ours)),
      theirs: quantity(read(theirs)),
      peer: before,
      result: quantity(read(ours)),
      required,
    };
  });
}
