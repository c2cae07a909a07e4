import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../testing/wait.ts';
import { ContainerGuard } from './container-guard.ts';

test('a guard whose process the machine refuses is told of, guards nothing, and is started again', async () => {
  const stateDir = mkdtempSync(path.join(os.tmpdir(), 'lh-guard-'));
  const problems: string[] = [];
  // No kernel takes a path of this length.
  let shell = `/${'x'.repeat(5_000)}`;
  const guard = new ContainerGuard({
    stateDir,
    get shell() {
      return shell;
    },
    onProblem: (problem) => problems.push(problem),
  });
  onTestFinished(() => {
    guard.close();
    rmSync(stateDir, { recursive: true });
  });

  // As engines make them: it kills what has this in the name of its control group, on the whole machine.
  const containerId = randomBytes(32).toString('hex');
  await expect(guard.watch(containerId, 'b1')).rejects.toThrow('the guard of containers ended');
  expect(problems).toHaveLength(1);
  shell = '/bin/sh';
  await until('a guard runs', () => guard.pid !== undefined);

  await guard.watch(containerId, 'b1');
});
