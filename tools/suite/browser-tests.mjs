/** The tests in a real browser, as `npm run e2e` and `npm test` run them; everything must be built. */
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { ensureChromium } from '../install/chromium.mjs';
import { root, runInstalled } from '../workspace.mjs';

const results = path.join(root, '.test-results', 'e2e.json');

/** @returns how many passed and failed; a run that could not be made counts as one that failed. */
export async function runBrowserTests(args = [], options = {}) {
  await rm(results, { force: true });
  const chromium = await ensureChromium();
  if (chromium === undefined) return { passed: 0, failed: 1, reason: 'no browser' };
  const exitCode = await runInstalled(
    '.bin/playwright',
    ['test', '-c', 'e2e/playwright.config.ts', ...args],
    { ...options, env: { CHROMIUM_PATH: chromium } },
  );
  const { passed, failed } = await counted();
  if (exitCode === 0 || failed > 0) return { passed, failed };
  return { passed, failed: 1, reason: 'errors outside of browser tests' };
}

async function counted() {
  const text = await readFile(results, 'utf8').catch(() => undefined);
  if (text === undefined) return { passed: 0, failed: 0 };
  // Retries are off, so a flaky test has failed; a skipped one is not counted.
  const { expected, unexpected, flaky } = JSON.parse(text).stats;
  return { passed: expected, failed: unexpected + flaky };
}
