import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { createTestDatabase, startControllerProcess } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';

const run = promisify(execFile);
const packageRoot = path.join(import.meta.dirname, '..');
const dist = path.join(packageRoot, 'dist');
const installed = path.join(packageRoot, '..', '..', 'node_modules');

/** What a service would write, as in the README. */
const PROGRAM = `
import { createLeasehold, LeaseHeldError, type Lease } from '@leasehold/client';

const [url = '', token = ''] = process.argv.slice(2);
await using leasehold = createLeasehold({ url, token, holder: 'packed' });
const updateUser = leasehold.defineLease(['user', 'update'], { ttlMs: 10_000 });
// @ts-expect-error -- a segment must not contain "."
const wrong = (): unknown => leasehold.defineLease(['user.update']);

async function tokenOf(lease: Lease): Promise<string> {
  lease.assertHeld();
  const view = await leasehold.api.leases.get.query({ namespace: ['user', 'update'], key: lease.key });
  return view?.fencingToken ?? '';
}

let refusedBy = '';
{
  await using lease = await updateUser.acquire('42', { waitMs: 5_000 });
  if ((await tokenOf(lease)) !== lease.fencingToken) throw new Error('another token');
  try {
    await updateUser.acquire('42', { waitMs: 0 });
  } catch (error) {
    if (!(error instanceof LeaseHeldError)) throw error;
    refusedBy = error.by;
  }
}
await using attempt = await leasehold.environments.tryAcquire('prod', { action: 'deploy' });
const phase = (await leasehold.api.leases.get.query({ namespace: 'user.update', key: '42' }))?.phase;
console.log(JSON.stringify({ refusedBy, phase, environment: attempt.outcome, wrong: typeof wrong }));
`;

const TSCONFIG = {
  compilerOptions: {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    module: 'nodenext',
    target: 'es2022',
    types: ['node'],
    lib: ['es2023', 'esnext.disposable', 'dom'],
    outDir: 'built',
  },
  include: ['*.ts'],
};

/**
 * An empty project with the packed client in it. The declared dependencies of the client, and nothing
 * else of this repository, are linked from the modules installed here, so that no registry is needed.
 */
async function aProject(): Promise<string> {
  if (!existsSync(dist)) throw new Error(`${dist} is missing: run \`npm run build\` first`);
  const project = await mkdtemp(path.join(os.tmpdir(), 'leasehold-packed-'));
  onTestFinished(() => rm(project, { recursive: true, force: true, maxRetries: 10 }));
  // Packed from a copy: a build may be under way.
  const copy = path.join(project, 'package');
  await cp(dist, copy, { recursive: true });
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', project], {
    cwd: copy,
  });
  const [packed] = JSON.parse(stdout) as { filename: string; files: { path: string }[] }[];
  const files = packed?.files.map((file) => file.path.replace(/^shared-[\w-]+/u, 'shared'));
  expect(files?.toSorted()).toEqual([
    'LICENSE',
    'README.md',
    'index.d.ts',
    'index.js',
    'index.js.map',
    'package.json',
    'shared.d.ts',
    'shared.js',
    'shared.js.map',
    'testing.d.ts',
    'testing.js',
    'testing.js.map',
  ]);
  await rm(copy, { recursive: true, maxRetries: 10 });
  await writeFile(path.join(project, 'package.json'), '{ "private": true, "type": "module" }');
  const manifest = JSON.parse(await readFile(path.join(dist, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  const links = [...Object.keys(manifest.dependencies), 'typescript', '@types/node'].map((name) =>
    path.join(installed, name),
  );
  const flags = ['--offline', '--ignore-scripts', '--no-audit', '--no-fund', '--no-save'];
  await run('npm', ['install', ...flags, `./${packed?.filename ?? ''}`, ...links], {
    cwd: project,
  });
  return project;
}

/** The programs of the README, unchanged. */
async function readmeBlocks(): Promise<string[]> {
  const text = await readFile(path.join(packageRoot, 'README.md'), 'utf8');
  return [...text.matchAll(/^```ts\n(.*?)^```$/gmsu)].map(([, code]) => code ?? '');
}

async function aController(): Promise<{ url: string; token: string }> {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const home = await mkdtemp(path.join(os.tmpdir(), 'leasehold-packed-home-'));
  onTestFinished(() => rm(home, { recursive: true, force: true, maxRetries: 10 }));
  const controller = await startControllerProcess({ databaseUrl: database.url, home });
  onTestFinished(() => controller.kill());
  const text = await readFile(path.join(home, 'credentials.json'), 'utf8');
  return { url: controller.url, token: (JSON.parse(text) as { client: string }).client };
}

test('the packed client and its README work in an empty project: installed, type-checked, run', async () => {
  const [project, { url, token }] = await Promise.all([aProject(), aController()]);
  await writeFile(path.join(project, 'tsconfig.json'), JSON.stringify(TSCONFIG));
  await writeFile(path.join(project, 'service.ts'), PROGRAM);
  const blocks = await readmeBlocks();
  for (const [nth, block] of blocks.entries()) {
    await writeFile(path.join(project, `readme-${String(nth)}.ts`), block);
  }

  const problems = await run(
    process.execPath,
    [path.join(project, 'node_modules/typescript/bin/tsc')],
    { cwd: project },
  ).then(
    () => '',
    (error: unknown) => (error as { stdout: string }).stdout,
  );
  expect(problems).toBe('');
  const { stdout } = await run(process.execPath, ['built/service.js', url, token], {
    cwd: project,
  });

  expect(JSON.parse(stdout)).toEqual({
    refusedBy: 'packed',
    phase: 'free',
    environment: 'granted',
    wrong: 'function',
  });
  expect(blocks.length).toBeGreaterThan(2);
  const env = { PATH: process.env['PATH'], LEASEHOLD_URL: url, LEASEHOLD_TOKEN: token };
  for (const nth of blocks.keys()) {
    await run(process.execPath, [`built/readme-${String(nth)}.js`], { cwd: project, env });
  }
});

test('the published types and code import nothing of this repository', async () => {
  const files = (await readdir(dist)).filter((name) => /\.(?:js|d\.ts|json)$/u.test(name));
  expect(files.length).toBeGreaterThan(6);
  for (const file of files) {
    const text = await readFile(path.join(dist, file), 'utf8');
    const imported = [...text.matchAll(/(?:from|import)\s*\(?['"]([^'".][^'"]*)['"]/gu)].map(
      ([, id]) => id?.replace(/^((?:@[^/]+\/)?[^/]+).*$/u, '$1'),
    );

    expect(new Set(imported)).toEqual(
      new Set(imported.filter((id) => id !== undefined && ALLOWED.has(id))),
    );
  }
});

const ALLOWED = new Set([
  '@trpc/client',
  '@trpc/server',
  'ws',
  'node:async_hooks',
  'node:crypto',
  'node:events',
  'node:os',
  'node:timers',
  'os',
]);
