import { availableParallelism } from 'node:os';
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';

const root = import.meta.dirname;

/**
 * Libraries are read from their sources; the second list is for what Vitest loads as a server does. Without
 * `module`: what packages have under that name is for bundlers, and Node cannot load all of it.
 */
const conditions = ['@leasehold/source', 'node'];
/** Inside the console `~` is its sources. */
const alias = { '~': `${root}/apps/console/src` };
const resolve = { conditions, alias };
const ssr = { resolve: { conditions } };
/** The console leaves JSX to Next. */
const oxc = { jsx: { runtime: 'automatic' } } as const;

/** Where tests are: beside the code they protect. */
const FOLDERS = '{libs,apps,tools,examples,integrations}/**';
/** Set by `npm test` and `npm run test:all`. */
const suite = process.env['LEASEHOLD_TEST_SUITE'];
/** `npm test` leaves `*.nightly.*` to `npm run test:all`. */
const isGate = suite === 'gate';
/** What an older PostgreSQL cannot do. */
const isOldest = process.env['LEASEHOLD_TEST_POSTGRES'] === 'oldest';
const EXCLUDED = [
  '**/node_modules/**',
  '**/dist/**',
  ...(isGate ? ['**/*.nightly.test.ts'] : []),
  ...(isOldest ? ['**/*.postgres17.pg.test.ts'] : []),
];

/** A kind of tests, which the names of its files show. */
function kind(
  name: string,
  include: string[],
  test: TestProjectInlineConfiguration['test'],
): TestProjectInlineConfiguration {
  return {
    resolve,
    ssr,
    oxc,
    test: {
      root,
      name,
      include,
      exclude: EXCLUDED,
      restoreMocks: true,
      // A busy machine takes its time: this only ends a test that hangs.
      expect: { requireAssertions: true, poll: { timeout: 30_000 } },
      // Processes, not threads: a child asks the kernel to end it with the thread that started it.
      pool: 'forks',
      // The sources are loaded once for each worker, not for each file: that took as long as the tests.
      isolate: false,
      // They wait for PostgreSQL and for processes more than they use a core: two files at once, in a suite too.
      // By default, Vitest leaves a core to itself.
      maxWorkers: availableParallelism(),
      ...test,
    },
  };
}

const globalSetup = ['libs/testing/src/postgres/global-setup.ts'];

/** `unit` needs nothing, `pg` a PostgreSQL, `process` and `alone` also the bundles of the apps, and real processes. */
export default defineConfig({
  root,
  resolve,
  ssr,
  test: {
    projects: [
      kind('unit', [`${FOLDERS}/*.test.ts`], {
        exclude: [...EXCLUDED, '**/*.{pg,process}.{test,nightly.test,alone.nightly.test}.ts'],
        testTimeout: 40_000,
      }),
      kind('pg', [`${FOLDERS}/*.pg.{test,nightly.test}.ts`], {
        globalSetup,
        testTimeout: 60_000,
        hookTimeout: 60_000,
      }),
      kind('process', [`${FOLDERS}/*.process.{test,nightly.test}.ts`], {
        globalSetup,
        testTimeout: 90_000,
        hookTimeout: 60_000,
      }),
      // They use all that a machine has, and judge how long others wait: one at a time, with nothing beside it.
      kind('alone', [`${FOLDERS}/*.process.alone.nightly.test.ts`], {
        globalSetup,
        testTimeout: 90_000,
        hookTimeout: 60_000,
        maxWorkers: 1,
      }),
    ],
  },
});
