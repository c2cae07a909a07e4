import path from 'node:path';
import { expect, inject } from 'vitest';
import { copyTemplate, type TestDatabase } from './template-copy.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The connection string of the run's cluster; set by global-setup. */
    clusterUrl: string;
  }
}

/**
 * A copy of the template, in about 30 ms. The name is that of the test file, so that a database
 * that was left behind shows whose it is. The code that makes it drops it.
 */
export async function createTestDatabase(): Promise<TestDatabase> {
  const file = path.basename(expect.getState().testPath ?? 'test').replace(/\.test\.ts$/, '');
  return copyTemplate(inject('clusterUrl'), file);
}
