import path from 'node:path';
import { defineConfig } from '@playwright/test';
import { browser, ROOT } from './browser.config.ts';

/**
 * The console in a real browser. Each worker has a Leasehold of its own, so tests of one worker run
 * one after the other, and two cores can carry two workers.
 */
export default defineConfig({
  testDir: '.',
  projects: [
    { name: 'console', testMatch: '**/*.e2e.ts', testIgnore: '**/scale.e2e.ts' },
    // The tests that measure times have the machine to themselves.
    { name: 'scale', testMatch: '**/scale.e2e.ts', dependencies: ['console'] },
  ],
  globalSetup: './fixtures/cluster-setup.ts',
  outputDir: path.join(ROOT, '.test-results', 'e2e'),
  reporter: [['list'], ['json', { outputFile: path.join(ROOT, '.test-results', 'e2e.json') }]],
  workers: 2,
  retries: 0,
  fullyParallel: false,
  forbidOnly: true,
  timeout: 180_000,
  expect: { timeout: 20_000 },
  use: {
    ...browser,
    // Without screenshots of every page: taking them costs more than the tests do.
    trace: { mode: 'retain-on-failure', screenshots: false, sources: false },
    actionTimeout: 20_000,
    navigationTimeout: 30_000,
  },
});
