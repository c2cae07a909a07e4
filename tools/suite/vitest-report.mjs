/** What a run of Vitest has found, from its JSON report, and how `npm test` prints it at its end. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { root } from '../workspace.mjs';

const SLOWEST_COUNT = 10;
/** Lines of a failure's message; all of it is in the output of its run. */
const MESSAGE_LINES_MAX = 6;

/** @returns the counts, each failure, and how long each file took; a report that is missing has failed. */
export async function readReport(file) {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined) return { passed: 0, failed: 1, failures: [], files: [] };
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
  const named = failed.map(({ fullName, failureMessages }) => ({
    name: `${nameOf(result)}: ${fullName}`,
    message: failureMessages.join('\n'),
  }));
  // A file that could not be loaded, or whose hooks failed, has failed as a whole.
  if (named.length > 0 || result.status !== 'failed') return named;
  return [{ name: nameOf(result), message: result.message }];
}

function nameOf(result) {
  return path.relative(root, result.name);
}

export function printFailures(failures) {
  for (const { name, message } of failures) {
    const lines = message.split('\n').slice(0, MESSAGE_LINES_MAX);
    console.log([`\nfailed: ${name}`, ...lines.map((line) => `  ${line}`)].join('\n'));
  }
}

export function printSlowest(files) {
  const slowest = files.toSorted((a, b) => b.tookMs - a.tookMs).slice(0, SLOWEST_COUNT);
  if (slowest.length === 0) return;
  console.log('\nslowest files:');
  for (const { name, tookMs } of slowest) {
    console.log(`  ${(tookMs / 1_000).toFixed(1).padStart(6)} s  ${name}`);
  }
}
