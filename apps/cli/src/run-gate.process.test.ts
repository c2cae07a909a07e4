import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { identityOf } from './processes.ts';
import { launchCommand } from './run/guard.ts';

const MODULE = new URL('run/guard.ts', import.meta.url).href;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leasehold-gate-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** Launches a command that writes a file, lets it begin or not, and is killed. @returns the command's pid. */
async function launchAndDie(
  file: string,
  then: string,
  env: Readonly<Record<string, string>> = {},
): Promise<number> {
  const program = `
    const { launchCommand } = await import('${MODULE}');
    const session = await launchCommand(['sh', '-c', 'echo >"$0"; sleep 600', '${file}'], process.env, []);
    ${then}
    console.log(session.pid);
    setInterval(() => undefined, 1_000);`;
  const args = ['--conditions=@leasehold/source', '--import', 'tsx', '--input-type=module'];
  const guard = spawn(process.execPath, [...args, '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  });
  let printed = '';
  guard.stdout.on('data', (data: Buffer) => (printed += data.toString()));
  await waitUntil(() => printed.includes('\n'));
  if (then !== '') await waitUntil(() => existsSync(file));
  guard.kill('SIGKILL');
  return Number(printed);
}

test('a command whose guard is killed before the command line knows it never runs', async () => {
  const file = join(folder, 'never');

  const pid = await launchAndDie(file, '');

  await waitUntil(() => identityOf(pid) === undefined);
  expect(existsSync(file)).toBe(false);
});

test('a command that was let begin runs', async () => {
  const file = join(folder, 'begun');

  const pid = await launchAndDie(file, 'session.begin();');

  expect(identityOf(pid)).toBeDefined();
  process.kill(-pid, 'SIGKILL');
});

/** Variables that dash and ash do not hand on. */
const ODD = {
  'a.b': 'odd',
  'my-var': '',
  'npm_config_//registry.example.com/:_authToken': 'npm_secret',
  'BASH_FUNC_deploy%%': '() {  echo deployed >"$1"\n}',
  '-S': `it's "two"\nlines, a \\, a $HOME, a \`tick\`, a # and an end\n`,
  'größe-2': 'grün',
  'as.large': 'x'.repeat(100_000),
};

/** Runs a command until it ends. */
async function runToEnd(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  envProgram?: string,
): Promise<void> {
  const given = { PATH: process.env['PATH'], ...env };
  const session = await launchCommand(command, given, [], envProgram);
  session.begin();
  expect(await session.ended).toEqual({ exitCode: 0, signal: null });
}

/** @returns the environment that a program, Node, finds. */
async function environmentFound(
  env: Readonly<Record<string, string>>,
  { program = process.execPath, envProgram }: { program?: string; envProgram?: string } = {},
): Promise<Record<string, string>> {
  const file = join(folder, randomUUID());
  const note = `require('node:fs').writeFileSync(process.argv[1], JSON.stringify(process.env))`;
  await runToEnd([program, '--eval', note, file], env, envProgram);
  return JSON.parse(await readFile(file, 'utf8')) as Record<string, string>;
}

/** An `env` that first runs a line of shell. */
async function anEnv(line: string): Promise<string> {
  const path = join(folder, randomUUID());
  const text = `#!/bin/sh\n${line}\nexec /usr/bin/env "$@"\n`;
  await writeFile(path, text, { mode: 0o755 });
  return path;
}

test('a command finds each variable as it was, whatever its name and its value', async () => {
  const found = await environmentFound({ ...ODD, plain: 'as ever', go: 'on' });

  expect(found).toMatchObject({ ...ODD, plain: 'as ever', go: 'on' });
  expect(await environmentFound({ go: 'on' })).toMatchObject({ go: 'on' });
  expect(Object.keys(found).filter((name) => name.startsWith('LEASEHOLD_'))).toEqual([]);
});

test('it finds them also where `env` cannot insert values, as that of BusyBox', async () => {
  const envProgram = await anEnv('[ "$1" != -S ] || exit 1');

  const found = await environmentFound(ODD, { envProgram });

  expect(found).toMatchObject(ODD);
  expect(Object.keys(found).filter((name) => name.startsWith('LEASEHOLD_'))).toEqual([]);
});

test('their values, which may be secrets, are no arguments of a program', async () => {
  const log = join(folder, 'arguments');
  const envProgram = await anEnv(`/bin/cat "/proc/$$/cmdline" >>'${log}'`);
  // Whatever the command's PATH is.
  const given = { PATH: '/nowhere', ...ODD };
  const command = [process.execPath, '--eval', '0'];
  const session = await launchCommand(command, given, [], envProgram);
  const waiting = await readFile(`/proc/${String(session.pid)}/cmdline`, 'utf8');

  session.begin();

  expect((await session.ended).exitCode).toBe(0);
  const seen = `${waiting}${await readFile(log, 'utf8')}`;
  expect(seen).toContain(envProgram);
  expect(seen).not.toContain('npm_secret');
});

test('a command whose path has a "=" is run, and finds them', async () => {
  const program = join(folder, 'day=1');
  await symlink(process.execPath, program);

  expect(await environmentFound(ODD, { program })).toMatchObject(ODD);
});

test.runIf(existsSync('/bin/bash'))('a function that bash exports can be called', async () => {
  const file = join(folder, 'called');

  await runToEnd(['bash', '-c', 'deploy "$0"', file], ODD);

  expect(await readFile(file, 'utf8')).toBe('deployed\n');
});

test('with such variables too, a command whose guard is killed first never runs', async () => {
  const file = join(folder, 'never with variables');

  const pid = await launchAndDie(file, '', { 'a.b': 'odd' });

  await waitUntil(() => identityOf(pid) === undefined);
  expect(existsSync(file)).toBe(false);
});
