/** Runs tests in the copy. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';

const APPS = ['cli', 'console', 'controller', 'drone', 'gateway'];

/** Bundles the apps of the copy from its sources; the pages of the console and the packages stay as they were built. */
export async function bundleApps(copy) {
  for (const app of APPS) {
    if ((await node(copy, ['tools/build/bundle.mjs', app])) === 0) continue;
    throw new Error(`The app ${app} could not be bundled.`);
  }
}

/**
 * Runs these tests as `npm test` does, or `npm run test:all`.
 * @returns those that failed, each with its file; with `bail` the run ends at the first.
 */
export async function failuresOf(copy, files, { suite, bail }) {
  const report = path.join(copy, '.test-results', 'mutations.json');
  await rm(report, { force: true });
  const args = ['run', '--passWithNoTests', '--reporter=json', `--outputFile.json=${report}`];
  await node(copy, ['node_modules/.bin/vitest', ...args, ...(bail ? ['--bail=1'] : []), ...files], {
    LEASEHOLD_TEST_SUITE: suite,
  });
  const { testResults } = JSON.parse(await readFile(report, 'utf8'));
  return testResults.flatMap(({ name, status, assertionResults }) => {
    const file = path.relative(copy, name);
    const failed = assertionResults.filter((one) => one.status === 'failed');
    if (failed.length > 0) return failed.map(({ fullName }) => ({ file, test: fullName }));
    // Its hooks failed, or it could not be loaded.
    return status === 'failed' ? [{ file, test: 'the whole file' }] : [];
  });
}

/** Runs Node in the copy without its output. @returns the exit code; a signal counts as 1. */
async function node(copy, args, env = {}) {
  const child = spawn(process.execPath, args, {
    cwd: copy,
    env: { ...process.env, ...env },
    stdio: 'ignore',
  });
  const stop = () => child.kill();
  process.once('exit', stop);
  const [code] = await once(child, 'close');
  process.off('exit', stop);
  return code ?? 1;
}
