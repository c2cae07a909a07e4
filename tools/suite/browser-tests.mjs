/** The tests in a real browser, as `npm run e2e` and `npm test` run them; everything must be built. */
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { ensureChromium } from '../install/chromium.mjs';
import { root, runInstalled } from '../workspace.mjs';

const results = path.join(root, '.test-results', 'e2e.json');

/**
 * @param options as of `run`; with `ifFailed`, what Playwright prints is shown only if a test failed.
 * @returns how many passed and failed, which failed, and how long each file took; a run that could not be made
 *   counts as one that failed.
 */
export async function runBrowserTests(args = [], options = {}) {
  await rm(results, { force: true });
  const chromium = await ensureChromium();
  if (chromium === undefined) return { passed: 0, failed: 1, failures: ['no browser'] };
  const exitCode = await runInstalled(
    '.bin/playwright',
    ['test', '-c', 'e2e/playwright.config.ts', ...args],
    { ...options, env: { ...options.env, CHROMIUM_PATH: chromium } },
  );
  const report = await readReport();
  if (exitCode === 0 || report.failed > 0) return report;
  return { ...report, failed: 1, failures: ['errors outside of browser tests'] };
}

async function readReport() {
  const text = await readFile(results, 'utf8').catch(() => undefined);
  if (text === undefined) return { passed: 0, failed: 0, failures: [], files: [] };
  const tests = JSON.parse(text).suites.flatMap(testsIn);
  const tookMs = new Map();
  for (const { file, ms } of tests) tookMs.set(file, (tookMs.get(file) ?? 0) + ms);
  // Retries are off. A test that was not run, because one before it failed, counts as neither.
  const failed = tests.filter(({ status }) => status === 'unexpected' || status === 'flaky');
  return {
    passed: tests.filter(({ status }) => status === 'expected').length,
    failed: failed.length,
    failures: failed.map(({ file, title }) => `e2e/${file}: ${title}`),
    files: [...tookMs].map(([file, ms]) => ({ name: `e2e/${file}`, tookMs: ms })),
  };
}

function testsIn({ specs = [], suites = [] }) {
  const own = specs.flatMap(({ file, title, tests }) =>
    tests.map(({ status, results: runs }) => ({
      file,
      title,
      status,
      ms: runs.reduce((sum, { duration }) => sum + duration, 0),
    })),
  );
  return [...own, ...suites.flatMap(testsIn)];
}
