import type { TestProject } from 'vitest/node';
import { findOldestPostgres } from './oldest-postgres.ts';
import { startTestCluster, type TestCluster } from './test-cluster.ts';

interface Shared {
  readonly started: Promise<TestCluster>;
  usersCount: number;
}

/** Each project of a run is set up by a copy of this module; all copies share one process. */
const SHARED = Symbol.for('leasehold.testCluster');
const place = globalThis as { [SHARED]?: Shared | undefined };

/**
 * Gives the project the cluster of this run: the first one starts it, the last one stops it. It is of the PostgreSQL
 * that npm brings or, with `LEASEHOLD_TEST_POSTGRES=oldest`, of the oldest of this machine that is supported.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const shared = (place[SHARED] ??= { started: startTestCluster(nativeDir()), usersCount: 0 });
  shared.usersCount += 1;
  project.provide('clusterUrl', (await shared.started).url);
  return async () => {
    shared.usersCount -= 1;
    if (shared.usersCount > 0) return;
    place[SHARED] = undefined;
    await (await shared.started).stop();
  };
}

function nativeDir(): string | undefined {
  if (process.env['LEASEHOLD_TEST_POSTGRES'] !== 'oldest') return undefined;
  const found = findOldestPostgres();
  if (found === undefined) throw new Error('there is no PostgreSQL before 18 on this machine');
  return found;
}
