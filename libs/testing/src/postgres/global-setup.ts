import type { TestProject } from 'vitest/node';
import { startTestCluster, type TestCluster } from './test-cluster.ts';

interface Shared {
  readonly started: Promise<TestCluster>;
  usersCount: number;
}

/** Each project of a run is set up by a copy of this module; all copies share one process. */
const SHARED = Symbol.for('leasehold.testCluster');
const place = globalThis as { [SHARED]?: Shared | undefined };

/**
 * Gives the project the cluster of this run: the first one starts it, the last one stops it.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const shared = (place[SHARED] ??= { started: startTestCluster(), usersCount: 0 });
  shared.usersCount += 1;
  project.provide('clusterUrl', (await shared.started).url);
  return async () => {
    shared.usersCount -= 1;
    if (shared.usersCount > 0) return;
    place[SHARED] = undefined;
    await (await shared.started).stop();
  };
}
