import path from 'node:path';
import { expect, inject, onTestFinished, TestRunner } from 'vitest';
import { copyTemplate, type TestDatabase } from './template-copy.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The connection string of the run's cluster; set by global-setup. */
    clusterUrl: string;
  }
}

/** Those of tests that have ended. */
const left: TestDatabase[] = [];
/** So many stay: a session that its test has just ended may not be gone yet, and must not be killed. */
const LEFT_COUNT = 4;

/**
 * A copy of the template, in about 20 ms. The name is that of the test file, so that a database
 * that was left behind shows whose it is. The test that makes it drops it.
 */
export async function copyForTests(template?: string): Promise<TestDatabase> {
  const { testPath = 'test' } = expect.getState();
  const file = path.basename(testPath).replace(/\.test\.ts$/, '');
  const old = left.splice(0, Math.max(0, left.length - LEFT_COUNT));
  await Promise.all(old.map((each) => each.drop()));
  return copyTemplate(inject('clusterUrl'), file, template);
}

/**
 * A database of a test's own: empty, or a copy of another one that nobody uses. One that a test makes is dropped
 * some time after the test.
 */
export async function createTestDatabase(copyOf?: TestDatabase): Promise<TestDatabase> {
  const database = await copyForTests(copyOf?.name);
  if (TestRunner.getCurrentTest() !== undefined) onTestFinished(() => void left.push(database));
  return database;
}
