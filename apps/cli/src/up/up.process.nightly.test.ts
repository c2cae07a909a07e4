import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConnectResult } from '@leasehold/keys-core/keys';
import { waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunFile } from '../home.ts';
import { processesOf, runCommand, startUp, type Started } from '../testing/command-line.ts';
import { runHere } from '../testing/in-process.ts';
import { echoArgs, echoOf, makeEcho, writeEcho } from '../testing/own-program.ts';

let home: string;
let sources: string;
let up: Started;
let run: RunFile;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'leasehold-up-'));
  sources = await makeEcho('first');
  // In a folder that backends do not see.
  const walled = join(home, 'walled.mjs');
  await writeFile(walled, '');
  const programs = ['--program', `walled=node ${walled}`, ...echoArgs(sources)];
  ({ up, run } = await startUp(home, [...programs, '--no-console']));
}, 90_000);

afterAll(async () => {
  up.child.kill('SIGTERM');
  await up.ended;
  await rm(home, { recursive: true, maxRetries: 10 });
  await rm(sources, { recursive: true, maxRetries: 10 });
});

const here = (...args: string[]) => runHere(args, { LEASEHOLD_HOME: home });

async function answer<Value>(...args: string[]): Promise<Value> {
  const ended = await here(...args, '--json');
  expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
  return JSON.parse(ended.stdout) as Value;
}

async function kill(): Promise<void> {
  up.child.kill('SIGKILL');
  await up.ended;
  await waitUntil(() => processesOf(home).length === 0, {
    pollMs: 200,
    what: 'the end of every process',
  });
}

test('a program that has crashed again and again is started at once after a change of its file', async () => {
  const failing = async (): Promise<number | undefined> => {
    const { failing: found } = await answer<{ failing: { failures: number } | null }>(
      ...['keys', 'show', 'fixed'],
    );
    return found?.failures;
  };
  await writeEcho(sources, 'bad', 'throw new Error("no table rooms");');
  await waitUntil(() => up.said().stdout.includes('echo.mjs changed'));
  for (let crashes = 0; crashes < 3; crashes += 1) {
    const failed = await here('connect', 'fixed', '--program', 'echo');
    expect(failed.exitCode).toBe(1);
  }
  expect(await failing()).toBeGreaterThanOrEqual(3);
  expect(up.said().stdout).toContain('Error: no table rooms');

  await writeEcho(sources, 'second');

  await waitUntil(async () => (await failing()) === undefined);
  const fixed = await answer<ConnectResult>('connect', 'fixed', '--program', 'echo');
  expect(await echoOf(fixed)).toEqual({ version: 'second', mode: 'dev' });
});

test('a program in a folder that backends do not see is named before it starts, and when it has crashed', async () => {
  const problem = `${home} is hidden from programs: put its files elsewhere`;
  const [said = ''] = up.said().stdout.split('Running.');
  expect(said).toContain(`program walled: ${problem}`);

  const failed = await here('connect', 'walled', '--program', 'walled');

  expect(failed.exitCode).toBe(1);
  expect(failed.stderr).toContain(problem);
  await waitUntil(() => up.said().stdout.includes('! key walled, program walled: it crashed'));
  expect(up.said().stdout).not.toContain('call failed');
});

test('PostgreSQL keeps its port from run to run; when another program has it, a new one is named', async () => {
  expect(run).toMatchObject({ consoleUrl: null, pids: { console: null } });
  const { databaseUrl } = run;
  await kill();
  ({ up, run } = await startUp(home, ['--no-console']));
  expect(run.databaseUrl).toBe(databaseUrl);
  await kill();
  const { port } = new URL(databaseUrl);
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(Number(port), '127.0.0.1', resolve));

  ({ up, run } = await startUp(home, ['--no-console']));
  other.close();

  expect(up.said().stdout + up.said().stderr).toContain(`another program uses port ${port}`);
  expect(new URL(run.databaseUrl).port).not.toBe(port);
  expect((await readFile(join(home, 'postgres', 'port'), 'utf8')).trim()).toBe(
    new URL(run.databaseUrl).port,
  );
});

test('a home that cannot be made, /dev/null, is named', async () => {
  const ended = await runCommand(['up', '--port', '0'], { LEASEHOLD_HOME: '/dev/null' });

  expect(ended).toMatchObject({ exitCode: 1 });
  expect(ended.stderr).toMatch(/\/dev\/null.*\n.*LEASEHOLD_HOME/u);
});
