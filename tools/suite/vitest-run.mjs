/** One run of Vitest as a phase of a suite, and what it has found. */
import { writeFileSync } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { root, runInstalled } from '../workspace.mjs';

/** Where reports of runs are kept. */
export const RESULTS = path.join(root, '.test-results');

/** Tells {@link Report} its file. */
const FILE_VARIABLE = 'LEASEHOLD_TEST_REPORT';

/**
 * Prints only what failed, in full.
 * @returns how many passed and failed, which failed, and how long each file took.
 */
export async function runVitest(name, args, env = {}) {
  const file = path.join(RESULTS, `${name.replaceAll(/\W+/g, '-')}.json`);
  await mkdir(RESULTS, { recursive: true });
  await rm(file, { force: true });
  const reporters = ['--reporter=minimal', `--reporter=${fileURLToPath(import.meta.url)}`];
  const exitCode = await runInstalled('.bin/vitest', ['run', ...reporters, ...args], {
    env: { ...env, [FILE_VARIABLE]: file },
    ifFailed: true,
  });
  const report = await readReport(file);
  if (exitCode === 0 || report.failed > 0) return report;
  return { ...report, failed: 1, failures: [`${name}: errors outside of tests`] };
}

/** A report that is missing has failed. */
async function readReport(file) {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  const files = text === undefined ? [] : JSON.parse(text);
  const failures = files.flatMap((one) => one.failures);
  const passed = files.reduce((sum, one) => sum + one.passed, 0);
  return { passed, failed: failures.length, failures, files };
}

/** A reporter for Vitest. Its own does not count the hooks of a file, which start what a test of processes needs. */
// eslint-disable-next-line no-restricted-syntax -- Vitest makes the default export.
export default class Report {
  onTestRunEnd(modules) {
    writeFileSync(process.env[FILE_VARIABLE], JSON.stringify(modules.map(foundIn)));
  }
}

function foundIn(module) {
  const name = path.relative(root, module.moduleId);
  const tests = [...module.children.allTests()];
  const failed = tests.filter((test) => test.result().state === 'failed');
  const { collectDuration, duration } = module.diagnostic();
  // A file that could not be loaded, or whose hooks failed, has failed as a whole.
  const whole = failed.length === 0 && module.state() === 'failed' ? [name] : [];
  return {
    name,
    passed: tests.filter((test) => test.result().state === 'passed').length,
    failures: [...whole, ...failed.map(({ fullName }) => `${name}: ${fullName}`)],
    tookMs: collectDuration + duration,
  };
}
