import { availableParallelism } from 'node:os';
import path from 'node:path';
import { defineConfig } from 'vitest/config';
import packageJson from './package.json' with { type: 'json' };
import { findOldestPostgres } from './libs/testing/src/postgres/oldest-postgres.ts';

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

/** Where tests are: beside the code they protect. */
function testsNamed(ending: string): string[] {
  return ['libs', 'apps', 'tools', 'examples'].map((folder) => `${folder}/**/*${ending}.test.ts`);
}

const everywhere = {
  root,
  restoreMocks: true,
  expect: { requireAssertions: true },
  dangerouslyIgnoreUnhandledErrors: false,
  exclude: ['**/node_modules/**', '**/dist/**'],
  // Processes, not threads: a child asks the kernel to end it with the thread that started it.
  pool: 'forks' as const,
  // The sources are loaded once for each worker, not for each file: that took as long as the tests.
  isolate: false,
  // By default, Vitest leaves a core to itself: of two, that is half.
  maxWorkers: availableParallelism(),
};

/** After the tests that need nothing. */
const later = { sequence: { groupOrder: 1 } };

const clusterSetup = ['libs/testing/src/postgres/global-setup.ts'];

const isLong = globalThis.process.env['LEASEHOLD_TEST_LONG'] === '1';

/** Of these, every statement of the kernel and of keys. */
const onOldest = [
  'libs/keys-core/src/postgres/witness/epoch.pg.test.ts',
  'libs/keys-core/src/grants/**/{grant,renew,locks.race,plans,fenced-transaction,kernel.model}.pg.test.ts',
  'libs/keys-core/src/grants/sql/assert-held.pg.test.ts',
  'libs/keys-core/src/events/event-stream.pg.test.ts',
  'libs/keys-core/src/keys/**/{connect,report,key-reads,revoke}.pg.test.ts',
  'libs/keys-core/src/leases/**/{waiting,acquire-or-renew}.pg.test.ts',
  'libs/keys-core/src/leases/coordinator/reap-stale.pg.test.ts',
];
/** In `npm run test:long`, every test of the database, and those of processes whose database nobody kills. */
const allOnOldest = [
  ...testsNamed('.pg'),
  'tools/faults/leases/*.process.test.ts',
  'tools/faults/databases/{pooler,release-race,slow-link,table-locked}.process.test.ts',
  'libs/keys-core/src/leases/acquire/line.process.test.ts',
];

/** Once more, on the oldest PostgreSQL that the machine has. */
const oldest = {
  resolve,
  ssr,
  test: {
    ...everywhere,
    ...later,
    name: 'pg-oldest',
    include: isLong ? allOnOldest : onOldest,
    // What only PostgreSQL 17 and later can do.
    exclude: [...everywhere.exclude, '**/transaction-timeout.pg.test.ts'],
    globalSetup: ['libs/testing/src/postgres/global-setup-oldest.ts'],
    testTimeout: 90_000,
    hookTimeout: 60_000,
  },
};

/** Tests that break real processes and mostly wait for deadlines; many beside them could make them miss. */
const faults = [
  'tools/faults/!(leases-*).process.test.ts',
  'tools/datacenters/{cut-off,etcd-lost}.process.test.ts',
  'tools/faults/databases/!(agents-return).process.test.ts',
  'tools/upgrades/*.process.test.ts',
  'libs/keys-core/src/leases/acquire/line.process.test.ts',
  'apps/drone/src/agent/containers/container-faults.process.test.ts',
];
/** Take the processor for themselves. */
const alone = [
  'tools/attack/attack.process.test.ts',
  'tools/faults/databases/agents-return.process.test.ts',
];
/** Runs of minutes, only in `npm run test:long`. */
const long = ['tools/faults/random/random.process.test.ts'];

const process = { globalSetup: clusterSetup, testTimeout: 90_000, hookTimeout: 60_000 };

/** The executable of a drone for this machine; its tests run it in place of a file of Node. */
const executable = path.join(
  root,
  `out/drone/leasehold-drone-${packageJson.version}-${globalThis.process.platform}-${globalThis.process.arch}`,
);
/**
 * What the executable itself promises, and that it runs, isolates and guards backends as the file of Node does,
 * commands and containers.
 */
const onExecutable = [
  'apps/drone/src/executable.process.test.ts',
  'apps/drone/src/agent/{drone,hostile}.process.test.ts',
  'apps/drone/src/agent/containers/containers.process.test.ts',
  'apps/drone/src/warden/leash.process.test.ts',
];
/** In `npm run test:long`, every test that runs a drone by itself. */
const allOnExecutable = [
  'apps/drone/src/*.process.test.ts',
  'apps/drone/src/{agent,warden}/*.process.test.ts',
  'apps/drone/src/agent/containers/*.process.test.ts',
];

/** Every fault once in one run of a whole Leasehold, which starts and bundles all that it needs. */
const meeting = ['tools/faults/random/every-fault.process.test.ts'];

/** `unit` needs nothing, `pg` a PostgreSQL, all others real processes too. */
export default defineConfig({
  root,
  resolve,
  ssr,
  test: {
    projects: [
      {
        resolve,
        ssr,
        test: {
          ...everywhere,
          name: 'unit',
          include: testsNamed(''),
          exclude: [...everywhere.exclude, ...testsNamed('.pg'), ...testsNamed('.process')],
          testTimeout: 40_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        resolve,
        ssr,
        test: {
          ...everywhere,
          ...later,
          name: 'pg',
          include: testsNamed('.pg'),
          globalSetup: clusterSetup,
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        resolve,
        ssr,
        test: {
          ...everywhere,
          ...process,
          ...later,
          name: 'process',
          include: testsNamed('.process'),
          exclude: [
            ...everywhere.exclude,
            ...[...faults, ...meeting, ...alone, ...long],
            'apps/drone/src/executable.process.test.ts',
          ],
        },
      },
      {
        resolve,
        ssr,
        test: {
          ...everywhere,
          ...process,
          ...later,
          name: 'executable',
          include: isLong ? allOnExecutable : onExecutable,
          globalSetup: [...clusterSetup, 'apps/drone/src/testing/executable-setup.ts'],
          env: { LEASEHOLD_TEST_DRONE: executable },
        },
      },
      {
        resolve,
        ssr,
        test: {
          ...everywhere,
          ...process,
          name: 'faults',
          include: faults,
          sequence: { groupOrder: 2 },
        },
      },
      {
        resolve,
        ssr,
        test: {
          ...everywhere,
          name: 'meeting',
          include: meeting,
          sequence: { groupOrder: 2 },
        },
      },
      {
        resolve,
        ssr,
        test: {
          ...everywhere,
          ...process,
          name: 'alone',
          include: isLong ? [...alone, ...long] : alone,
          fileParallelism: false,
          sequence: { groupOrder: 3 },
        },
      },
      ...(findOldestPostgres() === undefined ? [] : [oldest]),
    ],
  },
});
