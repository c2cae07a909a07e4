import path from 'node:path';
import { defineConfig } from '@playwright/test';
import { browser, ROOT } from './browser.config.ts';

/** Set by `npm test` and `npm run test:all`. */
const suite = process.env['LEASEHOLD_TEST_SUITE'];
/** `npm test`, and `npm run e2e` without arguments, leave these to `npm run test:all`. */
const NIGHTLY = suite === 'gate' ? ['**/*.nightly.e2e.ts'] : [];
const DATACENTERS = '**/datacenters.nightly.e2e.ts';

/**
 * The console in a real browser. Each worker has a Leasehold of its own, so tests of one worker run
 * one after the other, and two cores can carry two workers.
 */
export default defineConfig({
  testDir: '.',
  projects: [
    // First, because it needs a worker of its own, which would otherwise be started last and alone.
    { name: 'datacenters', testMatch: DATACENTERS, testIgnore: NIGHTLY },
    { name: 'console', testMatch: '**/*.e2e.ts', testIgnore: [DATACENTERS, ...NIGHTLY] },
  ],
  globalSetup: './fixtures/cluster-setup.ts',
  outputDir: path.join(ROOT, '.test-results', 'e2e'),
  reporter: [
    [suite === undefined ? 'list' : 'dot'],
    ['json', { outputFile: path.join(ROOT, '.test-results', 'e2e.json') }],
  ],
  workers: 2,
  retries: 0,
  fullyParallel: false,
  forbidOnly: true,
  timeout: 180_000,
  expect: { timeout: 20_000 },
  use: {
    ...browser,
    // A trace takes a picture of the page's elements at each step: a fifth of all the work. When a
    // test fails, its report shows the page; `npm run e2e -- --trace on` records the rest.
    trace: 'off',
    screenshot: 'only-on-failure',
    actionTimeout: 20_000,
    navigationTimeout: 30_000,
  },
});
