/**
 * `npm test`: everything that must pass, from a fresh clone. Installs what is missing, lints, checks
 * types, builds, runs every test, those in a real browser too, and ends with the slowest files, what
 * failed, and one line: how many passed and failed. A check that fails counts as one. Arguments go to
 * Vitest, and then there are no tests in a browser: `npm test -- libs/keys-core -t grant`. With `--long`
 * (`npm run test:long`) what chance may break is repeated more often.
 */
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { runBrowserTests } from './suite/browser-tests.mjs';
import { ensureEtcd } from './install/etcd.mjs';
import { printFailures, printSlowest, readReport } from './suite/vitest-report.mjs';
import { FOLDERS, WHOLE, writeWhole } from './suite/whole.mjs';
import { generate, install, root, runInstalled, runNx } from './workspace.mjs';

const results = path.join(root, '.test-results');
const { long, wanted } = parsed(process.argv.slice(2));
/** Read by `repetitions` of libs/testing. */
const TEST_ENVIRONMENT = long ? { LEASEHOLD_TEST_LONG: '1' } : {};

/** Without these there is nothing that could be tested. */
const PREPARATIONS = [
  { name: 'install', work: () => install('ci') },
  { name: 'generate', work: generate },
  // The check of project boundaries needs the project graph; without it, it silently checks nothing.
  { name: 'project graph', work: () => runNx(['show', 'projects'], { quiet: true }) },
];

for (const { name, work } of PREPARATIONS) {
  if ((await work()) !== 0) end([{ passed: 0, failed: 1, reason: name }]);
}
await rm(results, { recursive: true, force: true });
await mkdir(results, { recursive: true });
const own = await writeWhole();

// Two chains beside each other, each one process at a time. They take about equally long.
console.log('\nlint, beside types, build and the tests that need nothing else …');
const checks = await Promise.all([
  inTurn([
    () =>
      lint('projects', ['-c', 'tools/suite/eslint.whole.mjs', ...notIn(own), ...foldersBut(own)]),
    // Not in the same process: it would keep the compiler's view of everything at once.
    ...own.map((project) => () => lint(project, [project])),
  ]),
  inTurn([
    ...[WHOLE, ...own].map(
      (project) => () => check(`types of ${project}`, ['tsc', '--noEmit', '-p', project]),
    ),
    build,
    ...(wanted.length === 0 ? [() => vitest('unit', ['--project=unit'], { atOnce: true })] : []),
  ]),
]);

await ensureEtcd();
console.log('\ntests …');
const tests = wanted.length === 0 ? await allTests() : [await vitest('wanted', wanted)];
end([...checks.flat(), ...tests]);

/**
 * Two at a time, one of which works while the other waits: tests of statements beside tests of processes,
 * then the browser, on one core, beside the tests that wait for deadlines.
 */
async function allTests() {
  const first = await Promise.all([
    vitest('statements', ['--project=pg', '--project=pg-oldest'], { atOnce: true }),
    vitest('processes', ['--project=process']),
  ]);
  console.log('\ntests of faults, and in a browser …');
  const second = await Promise.all([
    vitest('faults', ['--project=alone'], { atOnce: true }),
    runBrowserTests(['--workers=1']),
  ]);
  return [...first, ...second];
}

function parsed(args) {
  return { long: args.includes('--long'), wanted: args.filter((arg) => arg !== '--long') };
}

async function inTurn(steps) {
  const outcomes = [];
  for (const step of steps) outcomes.push(await step());
  return outcomes;
}

function lint(what, args) {
  return check(`lint of ${what}`, ['eslint', '--max-warnings=0', ...args]);
}

/** A folder that is a project of its own is linted as one; the linter would fail on it with no file left. */
function foldersBut(projects) {
  return FOLDERS.filter((folder) => !projects.includes(folder));
}

function notIn(folders) {
  return folders.flatMap((folder) => ['--ignore-pattern', `${folder}/**`]);
}

async function check(name, [program, ...args]) {
  return outcomeOf(name, await runInstalled(`.bin/${program}`, args, { atOnce: true }));
}

async function build() {
  const args = ['run-many', '-t', 'build', '--outputStyle=static'];
  return outcomeOf('build', await runNx(args, { atOnce: true }));
}

function outcomeOf(name, exitCode) {
  return exitCode === 0 ? { passed: 0, failed: 0 } : { passed: 0, failed: 1, reason: name };
}

async function vitest(name, args, options = {}) {
  const file = path.join(results, `vitest-${name}.json`);
  const exitCode = await runInstalled(
    '.bin/vitest',
    ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`, ...args],
    { ...options, env: TEST_ENVIRONMENT },
  );
  const report = await readReport(file);
  if (exitCode === 0 || report.failed > 0) return report;
  return { ...report, failed: 1, reason: 'errors outside of tests' };
}

function end(outcomes) {
  const sum = (field) => outcomes.reduce((total, outcome) => total + outcome[field], 0);
  printSlowest(outcomes.flatMap(({ files = [] }) => files));
  printFailures(outcomes.flatMap(({ failures = [] }) => failures));
  for (const { reason } of outcomes) if (reason !== undefined) console.log(`failed: ${reason}`);
  const failed = sum('failed');
  console.log(`\n${sum('passed')} passed, ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}
