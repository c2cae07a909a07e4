import type { TestProject } from 'vitest/node';
import { findOldestPostgres } from './oldest-postgres.ts';
import { startTestCluster } from './test-cluster.ts';

/** Gives the project a cluster of the oldest PostgreSQL of this machine that is supported. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const cluster = await startTestCluster(findOldestPostgres());
  project.provide('clusterUrl', cluster.url);
  return () => cluster.stop();
}
