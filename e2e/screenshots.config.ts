import { defineConfig } from '@playwright/test';
import { browser } from './browser.config.ts';

/** Pictures of the console: `npm run screenshots`. */
export default defineConfig({
  testDir: '.',
  testMatch: 'screenshots.ts',
  globalSetup: './fixtures/cluster-setup.ts',
  outputDir: '../.test-results/screenshots',
  reporter: 'list',
  workers: 1,
  timeout: 600_000,
  use: { ...browser, actionTimeout: 10_000, navigationTimeout: 30_000 },
});
