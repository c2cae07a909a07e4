import path from 'node:path';
import { defineConfig } from '@playwright/test';
import { browser, ROOT } from './browser.config.ts';

/**
 * The console in a real browser. Each worker has a Leasehold of its own, so tests of one worker run
 * one after the other, and two workers are what two cores bear.
 */
export default defineConfig({
  testDir: '.',
  projects: [
    { name: 'console', testMatch: '**/*.e2e.ts', testIgnore: '**/scale.e2e.ts' },
    // What takes times has the machine to itself.
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
    // Without a film of every page: taking it costs more than the tests do.
    trace: { mode: 'retain-on-failure', screenshots: false, sources: false },
    actionTimeout: 20_000,
    navigationTimeout: 30_000,
  },
});
