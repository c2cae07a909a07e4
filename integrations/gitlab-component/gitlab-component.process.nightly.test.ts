/**
 * The pipeline of the README, run by gitlab-ci-local, which expands components and checks the result against GitLab's
 * schema, with the command line and a controller as they ship.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { openTestStage, type Stage } from '@leasehold/testing';
import { load } from 'js-yaml';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { blocksOf } from '../../tools/docs-blocks/blocks.ts';

const run = promisify(execFile);
const ROOT = path.join(import.meta.dirname, '../..');
const RUNNER = path.join(ROOT, 'node_modules/gitlab-ci-local/src/index.js');

let stage: Stage;
/** A repository with a pipeline. */
let folder: string;
/** The README's pipelines: of a lease, and of an environment. */
let pipelines: string[];

beforeAll(async () => {
  stage = await openTestStage();
  const page = await readFile(path.join(import.meta.dirname, 'README.md'), 'utf8');
  pipelines = blocksOf('README.md', page)
    .filter(({ language }) => language === 'yaml')
    .map(({ lines }) =>
      lines.join('\n').replaceAll(/component: \S+\/(\w+)@\S+/gu, 'local: templates/$1.yml'),
    );
}, 60_000);
afterAll(() => stage.close());

beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'lh-gitlab-'));
  await cp(path.join(import.meta.dirname, 'templates'), path.join(folder, 'templates'), {
    recursive: true,
  });
  await symlink(path.join(ROOT, 'apps/cli/bin/leasehold.mjs'), path.join(folder, 'leasehold'));
  await git('init', '--quiet', '--initial-branch=main');
  await git('remote', 'add', 'origin', 'git@gitlab.example:shop/shop.git');
  return () => rm(folder, { recursive: true, maxRetries: 10 });
});

const git = (...args: string[]) =>
  run('git', ['-c', 'user.name=ci', '-c', 'user.email=ci@example.com', ...args], { cwd: folder });

/** The scripts that the pipeline names; each tells which token it has. */
async function writeScripts(failing?: string): Promise<void> {
  for (const name of ['deploy', 'check', 'test', 'migrate']) {
    const end = name === failing ? 1 : 0;
    const text = `#!/bin/sh\necho "${name} with [$LEASEHOLD_FENCING_TOKEN] [$LEASEHOLD_TOKEN]"\nexit ${String(end)}\n`;
    await writeFile(path.join(folder, `${name}.sh`), text, { mode: 0o755 });
  }
}

/** Runs jobs of a pipeline. */
async function runJobs(
  pipeline: string,
  ...jobs: string[]
): Promise<{ ok: boolean; text: string }> {
  await writeFile(path.join(folder, '.gitlab-ci.yml'), pipeline);
  await git('add', '--all');
  await git('commit', '--quiet', '--allow-empty', '-m', 'a pipeline');
  const variables = { LEASEHOLD_URL: stage.url, LEASEHOLD_TOKEN: stage.credentials.client };
  const args = Object.entries(variables).flatMap(([name, value]) => [
    '--variable',
    `${name}=${value}`,
  ]);
  const options = {
    cwd: folder,
    env: { ...process.env, PATH: `${folder}:${process.env['PATH'] ?? ''}`, HOME: folder },
  };
  const flags = ['--force-shell-executor', '--no-shell-isolation', '--no-color'];
  try {
    const { stdout, stderr } = await run(
      process.execPath,
      [RUNNER, ...jobs, ...flags, ...args],
      options,
    );
    return { ok: true, text: stdout + stderr };
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    return { ok: false, text: stdout + stderr };
  }
}

/** The first pipeline with leases of its own. */
function aPipeline(): { text: string; deploys: string; databases: string } {
  const [deploys, databases] = [`deploy-${randomUUID()}`, `database-${randomUUID()}`];
  const text = (pipelines[0] ?? '')
    .replace('deploys/shop', `deploys/${deploys}`)
    .replace('databases/shop', `databases/${databases}`)
    .replace('wait: 1h', 'wait: 0s');
  return { text, deploys, databases };
}

async function kindsOf(namespace: string, name: string): Promise<string[]> {
  const { items } = await stage.api().leases.history.query({ namespace, name });
  return items.map(({ kind }) => kind).reverse();
}

describe('the template run', () => {
  test('runs a command under the lease, without the token of the API', async () => {
    await writeScripts();
    const { text, deploys } = aPipeline();

    const { ok, text: said } = await runJobs(text, 'deploy');
    const view = await stage.api().leases.get.query({ namespace: 'deploys', name: deploys });

    expect(said).toContain(`deploy with [${String(view?.fencingToken)}] []`);
    expect(said).toContain('check with');
    expect(ok).toBe(true);
    expect(await kindsOf('deploys', deploys)).toEqual(['granted', 'released']);
  });

  test('fails with its command, and releases the lease', async () => {
    await writeScripts('deploy');
    const { text, deploys } = aPipeline();

    const { ok, text: said } = await runJobs(text, 'deploy');

    expect(ok).toBe(false);
    expect(said).not.toContain('check with');
    expect(await kindsOf('deploys', deploys)).toEqual(['granted', 'failed']);
  });

  test('does not run its command while somebody else holds the lease', async () => {
    await writeScripts();
    const { text, deploys } = aPipeline();
    const lease = { namespace: ['deploys'], ttlMs: 60_000, localTimeMs: 0, holder: 'other' };
    await stage.api().leases.acquire.mutate({ ...lease, key: deploys });

    const { ok, text: said } = await runJobs(text, 'deploy');

    expect(ok).toBe(false);
    expect(said).toContain(`deploys/${deploys} is held by other`);
    expect(said).not.toContain('deploy with');
  });

  test('refuses neither a lease nor an environment, and both', async () => {
    const input = (lines: string): string =>
      `include:\n  - local: templates/run.yml\n    inputs:\n      run: echo ran\n${lines}`;

    for (const lines of ['', '      scope: a/b\n      environment: c\n']) {
      const { ok, text } = await runJobs(input(lines), 'deploy');
      expect(ok).toBe(false);
      expect(text).toContain('Either the input scope or the input environment must be given.');
    }
  });

  test('refuses an input that its description does not allow', async () => {
    const { ok, text } = await runJobs(
      (pipelines[1] ?? '').replace('supersede: waiting', 'supersede: everybody'),
      'deploy',
    );

    expect(ok).toBe(false);
    expect(text).toContain('supersede');
  });
});

describe('the template hold', () => {
  test('holds a lease from the first line of a job to its last', async () => {
    await writeScripts();
    const { text, databases } = aPipeline();

    const { ok, text: said } = await runJobs(text, 'migrate');

    expect(said).toContain('Renewed: it is held for another');
    expect(said).toMatch(/migrate with \[\d+\]/u);
    expect(ok).toBe(true);
    expect(await kindsOf('databases', databases)).toEqual(['granted', 'released']);
  });

  test('is longer than the job that extends it may run', () => {
    const pipeline = load(pipelines[0] ?? '') as {
      include: { inputs: Record<string, string> }[];
      migrate: { extends: string; timeout?: string };
    };
    const { extends: job, timeout } = pipeline.migrate;
    const held = pipeline.include.find(({ inputs }) => inputs['job'] === job);

    expect([timeout, held?.inputs['ttl']]).toEqual([
      expect.stringMatching(/^\d+m$/u),
      expect.stringMatching(/^\d+m$/u),
    ]);
    expect(parseInt(held?.inputs['ttl'] ?? '')).toBeGreaterThan(parseInt(timeout ?? ''));
  });

  test('releases it also when the job has failed, and records that', async () => {
    await writeScripts('migrate');
    const { text, databases } = aPipeline();

    const { ok } = await runJobs(text, 'migrate');

    expect(ok).toBe(false);
    expect(await kindsOf('databases', databases)).toEqual(['granted', 'failed']);
  });
});

describe('the templates', () => {
  test('make jobs that the schema of GitLab accepts, and one that it does not is found', async () => {
    await writeScripts();
    const { text } = aPipeline();

    const broken = await runJobs(text.replace('extends:', 'when: sometimes\n  extends:'), 'test');

    expect(await runJobs(text, 'test')).toMatchObject({ ok: true });
    expect(broken.ok).toBe(false);
    expect(broken.text).toContain('sometimes');
  });

  test('have a row in the README for each input of run', async () => {
    const page = await readFile(path.join(import.meta.dirname, 'README.md'), 'utf8');
    const template = await readFile(path.join(import.meta.dirname, 'templates/run.yml'), 'utf8');
    const { spec } = load(template.split('\n---\n')[0] ?? '') as { spec: { inputs: object } };
    const names = Object.keys(spec.inputs);

    expect(names).toContain('scope');
    expect(names.filter((name) => !page.includes(`| \`${name}\` `))).toEqual([]);
  });
});
