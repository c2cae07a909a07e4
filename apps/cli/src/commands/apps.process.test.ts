/** Programs that cannot start end, so that whatever supervises them can start them again. */
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startCommand } from '../testing/command-line.ts';
import { controllerThatAnswers } from '../testing/in-process.ts';

/** Where no file may have more than this many blocks of 512 bytes: as on a disk with no more space. */
const onSmallDisk = (blocks: number): { prefix: string[] } => ({
  prefix: ['/bin/sh', '-c', `ulimit -f ${String(blocks)}; exec "$@"`, 'sh'],
});

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'leasehold-failing-'));
  const config = { droneId: 'd1', stateDir: join(folder, 'state'), programs: {} };
  writeFileSync(join(folder, 'drone.json'), JSON.stringify(config));
});
afterAll(() => {
  rmSync(folder, { recursive: true, maxRetries: 10 });
});

function environment(more: Record<string, string> = {}): Record<string, string> {
  return {
    LEASEHOLD_HOME: join(folder, 'home'),
    LEASEHOLD_URL: 'http://127.0.0.1:1',
    LEASEHOLD_TOKEN: `lh_${'a'.repeat(43)}`,
    ...more,
  };
}

describe('a program that cannot start ends with a code that is not zero, and the reason', () => {
  const drone = (): string[] => ['drone', '--config', join(folder, 'drone.json')];

  test('a drone on a full disk', async () => {
    const { exitCode, stdout } = await startCommand(drone(), environment(), onSmallDisk(0)).ended;

    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/could not start/u);
    expect(stdout).toMatch(/EFBIG/u);
  });
});

test('output that a disk takes only in part is reported, and is no success', async () => {
  const file = openSync(join(folder, 'output'), 'w');
  onTestFinished(() => closeSync(file));

  const options = { ...onSmallDisk(1), stdout: file };
  const { exitCode, stderr } = await startCommand(['--help'], environment(), options).ended;

  expect(statSync(join(folder, 'output')).size).toBe(512);
  expect(exitCode).toBe(1);
  expect(stderr).toContain('The output is incomplete');
});

describe('a command that is done, and whose reader takes nothing yet,', () => {
  const items = Array.from({ length: 5_000 }, (_, at) => ({ at, text: 'x'.repeat(1_000) }));

  test('ends at the first signal', async () => {
    const controller = await controllerThatAnswers(() =>
      // What is no list ends the watching.
      controller.asked.length === 1 ? { items } : {},
    );
    const { child } = startCommand(['keys', 'ls', '--json', '-w'], environment(controller.env));
    child.stdout?.pause();
    await once(child, 'disconnect');

    child.kill('SIGTERM');

    expect(await once(child, 'exit')).toEqual([null, 'SIGTERM']);
  });
});

test('a list that is watched ends when its reader has gone', async () => {
  const controller = await controllerThatAnswers(() => ({
    items: Array.from({ length: controller.asked.length }, (_, at) => ({ at })),
  }));
  const { child, ended } = startCommand(
    ['keys', 'ls', '--json', '-w'],
    environment(controller.env),
  );
  child.stdout?.destroy();

  expect(await ended).toMatchObject({ exitCode: 0, stderr: '' });
});

describe('a refusal keeps its exit code when it cannot be told', () => {
  test('because the disk is full', async () => {
    const file = openSync(join(folder, 'errors'), 'w');
    onTestFinished(() => closeSync(file));

    const options = { ...onSmallDisk(0), stderr: file };
    const { exitCode } = await startCommand(['no-command'], environment(), options).ended;

    expect(statSync(join(folder, 'errors')).size).toBe(0);
    expect(exitCode).toBe(2);
  });

  test('because its reader has gone', async () => {
    const { child, ended } = startCommand(['no-command'], environment());
    child.stderr?.destroy();

    expect(await ended).toMatchObject({ exitCode: 2, stderr: '' });
  });
});
