import path from 'node:path';
import { expect, inject } from 'vitest';
import { openStage, type Stage, type StageOptions } from './stage.ts';

/** Options of a stage of a test: with a database in the run's cluster, named after the file of the test. */
export function forTest(options: StageOptions = {}): StageOptions {
  const { testPath = 'test' } = expect.getState();
  const name = path.basename(testPath).split('.')[0];
  const where = options.databaseUrl === undefined ? { clusterUrl: inject('clusterUrl') } : {};
  return { name, ...where, ...options };
}

/** As {@link openStage} of processes, for a test. The caller closes it. */
export function openTestStage(options: StageOptions = {}): Promise<Stage> {
  return openStage(forTest(options));
}
