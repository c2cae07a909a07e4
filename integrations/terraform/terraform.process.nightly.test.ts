/**
 * terraform-under-lease.sh with the command line and a controller as they ship, and a stand-in for Terraform: a script
 * of that name in the PATH, which notes its arguments and waits to be let go.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { openTestStage, waitUntil, type Stage } from '@leasehold/testing';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

const WRAPPER = path.join(import.meta.dirname, 'terraform-under-lease.sh');
const CLI = path.join(import.meta.dirname, '../../apps/cli/bin/leasehold.mjs');
/** As Terraform does, it has a plugin, which ends at a signal, and at one to itself it first ends what it has begun. */
const STAND_IN = `#!/bin/sh
sh -c 'trap "echo plugin >>notes; exit 1" TERM INT; while :; do sleep 0.05; done' &
trap 'kill -9 $! && echo "interrupted $*" >>notes; exit 1' TERM INT
echo "begun $* [\${LEASEHOLD_FENCING_TOKEN:-}]" >>notes
while [ -e busy ]; do sleep 0.05; done
echo "ended $*" >>notes
kill -9 $!
`;

let stage: Stage;
let folder: string;
let state: string;
beforeAll(async () => {
  stage = await openTestStage();
}, 60_000);
afterAll(() => stage.close());
beforeEach(async () => {
  state = randomUUID();
  folder = await mkdtemp(path.join(os.tmpdir(), 'lh-terraform-'));
  await writeFile(path.join(folder, 'terraform'), STAND_IN, { mode: 0o755 });
  await symlink(CLI, path.join(folder, 'leasehold'));
  return () => rm(folder, { recursive: true, maxRetries: 10 });
});

function terraform(args: string[], more: Record<string, string> = {}) {
  const child = spawn(WRAPPER, args, {
    cwd: folder,
    env: {
      PATH: `${folder}:${process.env['PATH'] ?? ''}`,
      LEASEHOLD_URL: stage.url,
      LEASEHOLD_TOKEN: stage.credentials.client,
      TERRAFORM_LEASE: `terraform/${state}`,
      ...more,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise<{ exitCode: number | null; stderr: string }>((resolve) => {
    child.once('close', (exitCode) => resolve({ exitCode, stderr }));
  });
}

const viewOf = () => stage.api().leases.get.query({ namespace: 'terraform', name: state });
const notes = async (): Promise<string[]> =>
  (await readFile(path.join(folder, 'notes'), 'utf8').catch(() => '')).trim().split('\n');

/** Starts an apply that goes on until {@link letGo}. */
async function begin(...args: string[]) {
  await writeFile(path.join(folder, 'busy'), '');
  const running = terraform(args);
  await waitUntil(async () => (await notes()).some((line) => line.startsWith('begun')));
  return running;
}
const letGo = (): Promise<void> => rm(path.join(folder, 'busy'));

test('a second apply waits until the first has ended', async () => {
  const first = begin('apply', 'one.plan');
  await waitUntil(async () => (await viewOf())?.comment === 'terraform apply');
  const second = terraform(['apply', 'two.plan'], { TERRAFORM_WAIT: '1m' });
  await waitUntil(async () => {
    const line = { namespace: 'terraform', name: state };
    return (await stage.api().leases.waiters.query(line)).items.length === 1;
  });
  await letGo();
  const ends = [await first, await second];

  expect(ends.map(({ exitCode }) => exitCode)).toEqual([0, 0]);
  expect((await notes()).map((line) => line.replace(/ \[.*/u, ''))).toEqual([
    'begun apply one.plan',
    'ended apply one.plan',
    'begun apply two.plan',
    'ended apply two.plan',
  ]);
});

test('without a wait, an apply beside another one does not begin, and names who is at work', async () => {
  const first = begin('apply');
  await waitUntil(async () => (await viewOf())?.comment === 'terraform apply');
  const second = await terraform(['destroy']);
  await letGo();
  await first;

  expect(second.exitCode).toBe(6);
  expect(second.stderr).toContain('(terraform apply)');
  expect(await notes()).toHaveLength(2);
});

test.each(['plan -out one.plan', '-chdir=prod plan', 'init -upgrade', 'workspace select new'])(
  '%s takes no lease',
  async (words) => {
    expect((await terraform(words.split(' '))).exitCode).toBe(0);

    expect(await notes()).toContain(`begun ${words} []`);
    expect(await viewOf()).toBeNull();
  },
);

test.each(['-chdir=prod apply one.plan', 'workspace delete old', 'init -migrate-state', 'unknown'])(
  '%s runs under the lease',
  async (words) => {
    expect((await terraform(words.split(' '))).exitCode).toBe(0);

    const token = (await viewOf())?.fencingToken ?? 'none';
    expect(await notes()).toContain(`begun ${words} [${token}]`);
  },
);

test('an apply whose lease is revoked is interrupted, and not its plugins, and its wrapper fails', async () => {
  const running = begin('apply');
  const view = await waitUntil(viewOf);
  await waitUntil(async () => (await notes()).some((line) => line.startsWith('begun')));
  const { leaseId } = view;

  await stage.api().leases.revoke.mutate({ leaseId, mode: 'graceful', reason: 'wrong plan' });
  const { exitCode, stderr } = await running;

  expect(exitCode).toBe(125);
  expect(stderr).toContain('is being revoked (wrong plan)');
  expect(await notes()).toEqual([expect.stringMatching(/^begun apply /u), 'interrupted apply']);
});
