/** One run of Vitest as a phase of a suite, and what it has found. */
import { mkdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { root, runInstalled } from '../workspace.mjs';

/** Where reports of runs are kept. */
export const RESULTS = path.join(root, '.test-results');

/**
 * Runs one file at a time and prints only what failed, in full.
 * @returns how many passed and failed, which failed, and how long each file took.
 */
export async function runVitest(name, args, env = {}) {
  const file = path.join(RESULTS, `${name.replaceAll(/\W+/g, '-')}.json`);
  await mkdir(RESULTS, { recursive: true });
  await rm(file, { force: true });
  const reporters = ['--reporter=minimal', '--reporter=json', `--outputFile.json=${file}`];
  const exitCode = await runInstalled('.bin/vitest', ['run', ...reporters, ...args], {
    env,
    ifFailed: true,
  });
  const report = await readReport(file);
  if (exitCode === 0 || report.failed > 0) return report;
  return { ...report, failed: 1, failures: [`${name}: errors outside of tests`] };
}

/** A report that is missing has failed. */
async function readReport(file) {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined) return { passed: 0, failed: 0, failures: [], files: [] };
  const report = JSON.parse(text);
  const failures = report.testResults.flatMap(failuresIn);
  const files = report.testResults.map((result) => ({
    name: nameOf(result),
    tookMs: result.endTime - result.startTime,
  }));
  return { passed: report.numPassedTests, failed: failures.length, failures, files };
}

function failuresIn(result) {
  const failed = result.assertionResults.filter(({ status }) => status === 'failed');
  // A file that could not be loaded, or whose hooks failed, has failed as a whole.
  if (failed.length === 0 && result.status === 'failed') return [nameOf(result)];
  return failed.map(({ fullName }) => `${nameOf(result)}: ${fullName}`);
}

function nameOf(result) {
  return path.relative(root, result.name);
}
