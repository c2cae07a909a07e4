/** Programs that cannot start end, so that whatever supervises them can start them again. */
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, rmSync, statSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTestDatabase } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { runCommand, startCommand, type Ended } from '../testing/command-line.ts';
import { controllerThatAnswers } from '../testing/in-process.ts';

/** Where no file may have more than this many blocks of 512 bytes: as on a disk with no more space. */
const onSmallDisk = (blocks: number): { prefix: string[] } => ({
  prefix: ['/bin/sh', '-c', `ulimit -f ${String(blocks)}; exec "$@"`, 'sh'],
});

let folder: string;
let port: string;
let server: net.Server;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'leasehold-failing-'));
  const config = { droneId: 'd1', stateDir: join(folder, 'state'), programs: {} };
  writeFileSync(join(folder, 'drone.json'), JSON.stringify(config));
  server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = String((server.address() as net.AddressInfo).port);
});
afterAll(() => {
  server.close();
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

  test('a drone whose state folder is a file', async () => {
    const config = { droneId: 'd1', stateDir: '/dev/null', programs: {} };
    writeFileSync(join(folder, 'bad.json'), JSON.stringify(config));

    const words = ['drone', '--config', join(folder, 'bad.json')];
    const ended: Ended = await startCommand(words, environment()).ended;

    expect(ended.exitCode).toBe(1);
    expect(ended.stdout).toMatch(/could not start/u);
  });

  test.each([
    { of: 'a controller', words: ['controller'], variable: 'LEASEHOLD_PORT' },
    { of: 'a console', words: ['console'], variable: 'LEASEHOLD_CONSOLE_PORT' },
    { of: 'a gateway', words: ['gateway', 'run'], variable: 'LEASEHOLD_GATEWAY_LISTEN' },
  ])('$of whose port is taken', async ({ words, variable }) => {
    const taken = variable.endsWith('LISTEN') ? `127.0.0.1:${port}` : port;
    const { url } = await createTestDatabase();
    const env = environment({ DATABASE_URL: url, [variable]: taken });

    const ended = await startCommand(words, env).ended;

    expect(ended.exitCode).toBe(1);
    expect(ended.stderr).toContain(`127.0.0.1:${port} is in use: set ${variable} to another port.`);
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

  test('writes all when the reader takes it, long after', async () => {
    const { env } = await controllerThatAnswers(() => ({ items }));
    const { child, ended } = startCommand(['keys', 'ls', '--json'], environment(env));
    child.stdout?.pause();
    // It has printed all, and has nothing else to do.
    await once(child, 'disconnect');
    // Together they take longer than a command waits for anything else.
    for (let count = 0; count < 3; count += 1) await runCommand(['--help'], environment());
    child.stdout?.resume();

    const { exitCode, stdout } = await ended;

    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ items: { length: items.length } });
  });

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
