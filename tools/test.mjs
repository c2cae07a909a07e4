/**
 * `npm test`: everything that must pass, from a fresh clone. Installs what is missing, lints, checks
 * types, builds, runs every test, and ends with one line: how many passed and failed. A check that
 * fails counts as one. Arguments go to Vitest: `npm test -- libs/keys-core -t grant`.
 */
import { mkdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { generate, install, root, runInstalled, runNx } from './workspace.mjs';

const results = path.join(root, '.test-results', 'vitest.json');

/** Without these there is nothing that could be tested. */
const PREPARATIONS = [
  { name: 'install', work: () => install('ci') },
  { name: 'generate', work: generate },
  // The boundaries between projects are checked against the project graph; without one, silently not.
  { name: 'project graph', work: () => runNx(['show', 'projects'], { quiet: true }) },
];

const CHECKS = ['lint', 'typecheck', 'build'];

for (const { name, work } of PREPARATIONS) {
  if ((await work()) !== 0) end({ passed: 0, failed: 1, reasons: [name] });
}

const reasons = [];
for (const check of CHECKS) {
  console.log(`\n${check} …`);
  if ((await runNx(['run-many', '-t', check, '--outputStyle=static'])) !== 0) reasons.push(check);
}

console.log('\ntests …');
await rm(results, { force: true });
await mkdir(path.dirname(results), { recursive: true });
const exitCode = await runInstalled('.bin/vitest', [
  'run',
  '--reporter=default',
  '--reporter=json',
  `--outputFile.json=${results}`,
  ...process.argv.slice(2),
]);
const { passed, failed } = await counted();
if (exitCode !== 0 && failed === 0) reasons.push('errors outside of tests');
end({ passed, failed: failed + reasons.length, reasons });

async function counted() {
  const text = await readFile(results, 'utf8').catch(() => undefined);
  if (text === undefined) return { passed: 0, failed: 1 };
  const report = JSON.parse(text);
  // A file that could not be loaded has no tests, and has failed all the same.
  const unloaded = report.testResults.filter(
    (file) => file.status === 'failed' && file.assertionResults.length === 0,
  );
  return { passed: report.numPassedTests, failed: report.numFailedTests + unloaded.length };
}

function end({ passed, failed, reasons: failures }) {
  for (const reason of failures) console.log(`failed: ${reason}`);
  console.log(`\n${passed} passed, ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}
