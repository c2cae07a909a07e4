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
import { ensureChromium } from './install/chromium.mjs';
import { ensureContainers } from './install/containers.mjs';
import { ensureDatabases } from './install/databases.mjs';
import { ensureEtcd } from './install/etcd.mjs';
import { ensureLanguages } from './install/languages.mjs';
import { ensurePatroni } from './install/patroni.mjs';
import { findProjects, linters } from './suite/linters.mjs';
import { printFailures, printSlowest, readReport } from './suite/vitest-report.mjs';
import { generate, install, root, runInstalled, runNx } from './workspace.mjs';

const results = path.join(root, '.test-results');
const { long, wanted } = parsed(process.argv.slice(2));
/** Read by `repetitions` of libs/testing. */
const TEST_ENVIRONMENT = long ? { LEASEHOLD_TEST_LONG: '1' } : {};

/** Without these there is nothing that could be tested. */
const PREPARATIONS = [
  { name: 'install', work: () => install('ci') },
  { name: 'generate', work: generate },
  { name: 'project graph', work: findProjects },
];

// Packages of the machine are installed beside other things: first those of servers, then the browser.
const servers = ensureEtcd()
  .then(ensureDatabases)
  .then(ensurePatroni)
  .then(ensureContainers)
  .then(() => ensureLanguages({ isLong: long }));
for (const { name, work } of PREPARATIONS) {
  if ((await work()) !== 0) end([{ passed: 0, failed: 1, reason: name }]);
}
await rm(results, { recursive: true, force: true });
await mkdir(results, { recursive: true });
await servers;

const outcomes = await Promise.all([
  inTurn(linters().map((linter) => () => check(linter))),
  wanted.length === 0 ? allTests() : wantedTests(),
]);
end(outcomes.flat());

/**
 * Lanes beside each other. The one with the longest waits comes first at the processor, so that what
 * waits for nothing fills its pauses: tests of sources, the browser, and last the linters. The run in which
 * faults meet has a lane of its own: it waits more than anything, and what is beside it is one more fault.
 */
async function allTests() {
  const built = build();
  const browser = ensureChromium();
  const behind = { atOnce: true, niceness: 5 };
  const lanes = await Promise.all([
    inTurn([() => built, () => vitest('processes', ['process', 'executable', 'faults', 'alone'])]),
    inTurn([() => built, () => vitest('meeting', ['meeting'], { atOnce: true })]),
    vitest('sources', ['unit', 'pg', 'pg-oldest'], behind),
    Promise.all([built, browser]).then(() => runBrowserTests(['--workers=1'], behind)),
  ]);
  return lanes.flat();
}

async function wantedTests() {
  return [await build(), await runVitest('wanted', wanted)];
}

function parsed(args) {
  return { long: args.includes('--long'), wanted: args.filter((arg) => arg !== '--long') };
}

async function inTurn(steps) {
  const outcomes = [];
  for (const step of steps) outcomes.push(await step());
  return outcomes;
}

async function check({ name, run }) {
  return outcomeOf(name, await run({ atOnce: true, niceness: 19 }));
}

async function build() {
  const args = ['run-many', '-t', 'build', '--outputStyle=static'];
  return outcomeOf('build', await runNx(args, { atOnce: true }));
}

function outcomeOf(name, exitCode) {
  return exitCode === 0 ? { passed: 0, failed: 0 } : { passed: 0, failed: 1, reason: name };
}

function vitest(name, projects, options) {
  return runVitest(
    name,
    projects.map((project) => `--project=${project}`),
    options,
  );
}

async function runVitest(name, args, options = {}) {
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
