import path from 'node:path';
import { expect, inject, onTestFinished } from 'vitest';
import { copyTemplate, type TestDatabase } from './template-copy.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The connection string of the run's cluster; set by global-setup. */
    clusterUrl: string;
  }
}

/**
 * A copy of the template, in about 20 ms. The name is that of the test file, so that a database
 * that was left behind shows whose it is. One that a test makes is dropped when the test ends.
 */
export async function createTestDatabase(): Promise<TestDatabase> {
  const { testPath = 'test', currentTestName } = expect.getState();
  const file = path.basename(testPath).replace(/\.test\.ts$/, '');
  const database = await copyTemplate(inject('clusterUrl'), file);
  if (currentTestName !== undefined) onTestFinished(() => database.drop());
  return database;
}
