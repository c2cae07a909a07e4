import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { identityOf } from './processes.ts';

const MODULE = new URL('run/guard.ts', import.meta.url).href;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leasehold-gate-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** Launches a command that writes a file, lets it begin or not, and is killed. @returns the command's pid. */
async function launchAndDie(file: string, then: string): Promise<number> {
  const program = `
    const { launchCommand } = await import('${MODULE}');
    const session = await launchCommand(['sh', '-c', 'echo >"$0"; sleep 600', '${file}'], process.env, []);
    ${then}
    console.log(session.pid);
    setInterval(() => undefined, 1_000);`;
  const args = ['--conditions=@leasehold/source', '--import', 'tsx', '--input-type=module'];
  const guard = spawn(process.execPath, [...args, '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
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
