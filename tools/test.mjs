/**
 * `npm test`: the gate, from a fresh clone. Installs what is missing, lints, checks types, builds, and runs the
 * tests that every change must pass, those in a real browser too. `--all` (`npm run test:all`) runs every test,
 * those of `*.nightly.*` files too, on all that is supported; `--long` (`npm run test:long`) is that with more
 * repetitions of what chance may break. Ends with the slowest files, what failed, and one line: how many passed and
 * failed. A check that fails counts as one.
 *
 * Other arguments go to Vitest, after a build: `npm test -- libs/keys-core -t grant`.
 */
import { rm } from 'node:fs/promises';
import { HEADLESS } from './install/chromium.mjs';
import { ensurePackages, PACKAGES_OF_ALL } from './install/debian.mjs';
import { runBrowserTests } from './suite/browser-tests.mjs';
import { findProjects, linters } from './suite/linters.mjs';
import { runPhases, secondsOf } from './suite/phases.mjs';
import { RESULTS, runVitest } from './suite/vitest-run.mjs';
import { generate, install, runInstalled, runNx, run, root } from './workspace.mjs';

const SUITES = ['--all', '--long'];
const SLOWEST_COUNT = 10;
/** Projects whose build only tests of `test:all` use. */
const BUILT_FOR_ALL = [
  '@leasehold/client',
  '@leasehold/core',
  '@leasehold/docs',
  '@leasehold/example-next-cron',
];

const args = process.argv.slice(2);
const wanted = args.filter((arg) => !SUITES.includes(arg));
const isLong = args.includes('--long');
const isAll = isLong || args.includes('--all');
/** Read by `vitest.config.ts`, `e2e/playwright.config.ts` and `libs/testing/src/chance.ts`. */
const ENVIRONMENT = {
  LEASEHOLD_TEST_SUITE: isAll ? 'all' : 'gate',
  ...(isLong ? { LEASEHOLD_TEST_LONG: '1' } : {}),
};
const startMs = performance.now();

await rm(RESULTS, { recursive: true, force: true });
const prepared = await runPhases([
  { name: 'npm packages', run: () => step('npm packages', () => install('ci')) },
  { name: 'machine', run: () => step('machine', installPrograms) },
]);
if (prepared.some(({ failed }) => failed > 0)) end(prepared);
if (wanted.length > 0) end(await runWanted());
end([
  ...prepared,
  ...(await runPhases(isAll ? [executable(), ...gate(), ...beyondTheGate()] : gate())),
]);

/** The longest come first, so that at the end neither core waits for the other. */
function gate() {
  return [
    { name: 'generate', run: () => step('generate', generate) },
    { name: 'build', needs: ['generate'], run: () => step('build', build) },
    { name: 'unit', needs: ['generate'], run: () => vitest('unit') },
    // Some of all of them are about the executable.
    {
      name: 'process',
      needs: ['build', ...(isAll ? ['executable'] : [])],
      run: () => vitest('process'),
    },
    { name: 'pg', needs: ['generate'], run: () => vitest('pg') },
    {
      name: 'browser',
      needs: ['build'],
      run: () => runBrowserTests(['--workers=1'], { env: ENVIRONMENT, ifFailed: true }),
    },
    { name: 'projects', needs: ['build'], run: () => step('projects', findProjects) },
    ...linters().map(({ name, run: lint }) => ({
      name,
      needs: ['projects'],
      run: () => step(name, () => lint({ ifFailed: true })),
    })),
  ];
}

/** The drone as one executable file. */
function executable() {
  const binary = `${root}tools/build/drone-binary.mjs`;
  return {
    name: 'executable',
    needs: ['build'],
    run: () => step('executable', () => run(process.execPath, [binary], { ifFailed: true })),
  };
}

/**
 * The same tests on what else is supported: the oldest PostgreSQL, and a drone as one executable file. Then those that
 * fill the machine, with nothing beside them.
 */
function beyondTheGate() {
  return [
    {
      name: 'pg, oldest',
      needs: ['pg'],
      run: () => vitest('pg', { LEASEHOLD_TEST_POSTGRES: 'oldest' }),
    },
    {
      name: 'process, executable',
      needs: ['executable'],
      run: () => vitest('process', { LEASEHOLD_TEST_DRONE: 'executable' }, ['apps/drone/']),
    },
    {
      name: 'alone',
      needs: ['process', 'browser', 'lint', 'types', 'pg, oldest', 'process, executable'],
      run: () => vitest('alone'),
    },
  ];
}

async function installPrograms() {
  const chromium = process.env.CHROMIUM_PATH ? [] : [HEADLESS];
  await ensurePackages([...chromium, 'etcd-server', ...(isAll ? PACKAGES_OF_ALL : [])]);
  return 0;
}

function build() {
  const isGate = !isAll && wanted.length === 0;
  const left = isGate ? [`--exclude=${BUILT_FOR_ALL.join(',')}`] : [];
  const args = ['run-many', '-t', 'build', ...left, '--outputStyle=static', '--parallel=1'];
  return runNx(args, { ifFailed: true });
}

async function step(name, work) {
  const isOk = (await work()) === 0;
  return { passed: 0, failed: isOk ? 0 : 1, failures: isOk ? [] : [name] };
}

function vitest(project, env = {}, more = []) {
  const name = [project, ...Object.values(env)].join(', ');
  return runVitest(name, [`--project=${project}`, ...more], { ...ENVIRONMENT, ...env });
}

/** Shown as it comes: somebody is waiting for it. */
async function runWanted() {
  const built = await runPhases([
    { name: 'generate', run: () => step('generate', generate) },
    { name: 'build', needs: ['generate'], run: () => step('build', build) },
  ]);
  if (built.some(({ failed }) => failed > 0)) return built;
  process.exit(await runInstalled('.bin/vitest', ['run', ...wanted]));
}

function end(outcomes) {
  const sum = (field) => outcomes.reduce((total, outcome) => total + outcome[field], 0);
  const slowest = outcomes
    .flatMap(({ files = [] }) => files)
    .toSorted((a, b) => b.tookMs - a.tookMs)
    .slice(0, SLOWEST_COUNT);
  if (slowest.length > 0) console.log('\nslowest files:');
  for (const { name, tookMs } of slowest) console.log(`${secondsOf(tookMs)}  ${name}`);
  console.log('');
  for (const failure of outcomes.flatMap(({ failures = [] }) => failures)) {
    console.log(`failed: ${failure}`);
  }
  console.log(`${secondsOf(performance.now() - startMs).trim()} in all\n`);
  console.log(`${String(sum('passed'))} passed, ${String(sum('failed'))} failed`);
  process.exit(sum('failed') === 0 ? 0 : 1);
}
