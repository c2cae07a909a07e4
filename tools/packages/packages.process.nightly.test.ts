/** The packages as a new user has them: packed, installed by npm in an empty folder, and used there. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { waitUntil } from '@leasehold/testing';
import ts from 'typescript';
import { afterAll, beforeAll, expect, test } from 'vitest';

const run = promisify(execFile);
const ROOT = path.resolve(import.meta.dirname, '../..');
/** What the README promises: from the packages to an address that answers. */
const FIRST_CONNECT_MS_MAX = 60_000;
const LIBRARIES = ['@leasehold/client', '@leasehold/core'];

/** What npm tells the programs that it runs about this repository is not for the npm of the folder. */
const env = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^(?:LEASEHOLD_|INIT_CWD$|npm_(?!config_)|npm_config_local_prefix$)/u.test(name),
  ),
);

/** Not the folder of a release; in the repository, so that what is packed finds its dependencies. */
const packed = path.join(ROOT, 'out', 'tested-packages');
/** The empty folder. */
let folder: string;
let report: string;
let installMs: number;
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-packages-'));
  const tool = path.join(ROOT, 'tools/packages/pack-all.mjs');
  ({ stdout: report } = await run(process.execPath, [tool, '--built', '--out', packed]));
  const names = await readdir(packed);
  const tarballs = names
    .filter((name) => name.endsWith('.tgz'))
    .map((name) => path.join(packed, name));
  const beganAt = performance.now();
  const flags = ['--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'];
  await run('npm', ['install', ...flags, ...tarballs], { cwd: folder, env });
  installMs = performance.now() - beganAt;
}, 400_000);
afterAll(async () => {
  const gone = { recursive: true, force: true, maxRetries: 10 };
  await Promise.all([folder, packed].map((made) => rm(made, gone)));
});

function npx(...args: string[]): Promise<{ stdout: string }> {
  return run('npx', args, { cwd: folder, env });
}

/** Started as a shell starts it: in a process group, which Ctrl-C reaches. */
async function up(): Promise<ChildProcess> {
  const child = spawn('npx', ['leasehold', 'up', '--port', '0'], {
    cwd: folder,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (said += text));
  }
  await waitUntil(() => child.exitCode !== null || said.includes('Running.'), {
    timeoutMs: FIRST_CONNECT_MS_MAX,
    what: 'leasehold up',
  });
  if (child.exitCode !== null) throw new Error(`leasehold up ended: ${said}`);
  return child;
}

async function down(child: ChildProcess): Promise<void> {
  const ended = once(child, 'close');
  process.kill(-(child.pid ?? 0), 'SIGINT');
  await ended;
}

async function written(name: string): Promise<Record<string, string>> {
  return JSON.parse(await readFile(path.join(folder, '.leasehold', name), 'utf8')) as Record<
    string,
    string
  >;
}

/** A page of the console, and the scripts that it names. */
async function pageWithScripts(url: string): Promise<{ scripts: number; missing: string[] }> {
  const page = await fetch(url);
  if (!page.ok) throw new Error(`${url} answers ${String(page.status)}`);
  const scripts = [...(await page.text()).matchAll(/<script src="([^"]+)"/gu)];
  const missing: string[] = [];
  for (const [, src = ''] of scripts) {
    if (!(await fetch(new URL(src, url))).ok) missing.push(src);
  }
  return { scripts: scripts.length, missing };
}

/** A service of a new user. It prints the address of a key, and whether a lease was held. */
const SERVICE = `
import { createLeasehold } from '@leasehold/client';
const [url, token] = process.argv.slice(2);
const leasehold = createLeasehold({ url, token });
const { address } = await leasehold.keys.connect({ key: { name: 'from-client' }, spawn: { program: 'room' }, waitFor: 'ready' });
const lease = await leasehold.defineLease(['first']).acquire('lease');
lease.assertHeld();
await lease[Symbol.asyncDispose]();
await leasehold[Symbol.asyncDispose]();
console.log(address);
`;

test('pack:all tells what a release would publish, and publishes nothing', () => {
  expect(report).toMatch(/^leasehold@\d+\.\d+\.\d+\S*, would be published with the tag /mu);
  for (const name of LIBRARIES) expect(report).toContain(`\n${name}@`);
  expect(report).toContain('Every check passed. Nothing was published.');
});

test('docs/dependencies.md lists every production dependency as it was built', async () => {
  const tool = path.join(ROOT, 'tools/docs-dependencies.mjs');

  await expect(run(process.execPath, [tool, '--check'])).resolves.toMatchObject({ stderr: '' });
});

test('from the packages in an empty folder to a first connect in less than a minute', async () => {
  const beganAt = performance.now();
  const running = await up();
  const runningAt = performance.now();
  try {
    const connected = await npx('leasehold', 'connect', 'demo', '--program', 'room');
    const answer = await fetch(`http://${connected.stdout.split('\n')[0] ?? ''}/`);
    const answeredAt = performance.now();
    const [runFile, credentials] = [await written('run.json'), await written('credentials.json')];
    await writeFile(path.join(folder, 'service.mjs'), SERVICE);
    const words = ['service.mjs', runFile['controllerUrl'] ?? '', credentials['client'] ?? ''];
    const service = await run(process.execPath, words, { cwd: folder, env });
    const page = await pageWithScripts(`${runFile['consoleUrl'] ?? ''}/sign-in`);
    const runbook = await pageWithScripts(`${runFile['consoleUrl'] ?? ''}/docs/operate/runbook`);

    expect(await answer.json()).toMatchObject({ key: 'demo', requests: 1 });
    expect(service.stdout).toMatch(/^127\.0\.0\.1:\d+\n$/u);
    expect(page.scripts).toBeGreaterThan(3);
    expect(page.missing).toEqual([]);
    expect(runbook.scripts).toBeGreaterThan(1);
    expect(runbook.missing).toEqual([]);
    await npx('leasehold', 'doctor');
    const tookMs = installMs + answeredAt - beganAt;
    expect(tookMs).toBeLessThan(FIRST_CONNECT_MS_MAX);
    const times = [tookMs, installMs, runningAt - beganAt, answeredAt - runningAt];
    const [all, install, start, connect] = times.map((ms) => (ms / 1_000).toFixed(1));
    process.stdout.write(
      `From packages to a first connect: ${all ?? ''} s ` +
        `(npm install ${install ?? ''}, leasehold up ${start ?? ''}, connect ${connect ?? ''})\n`,
    );
  } finally {
    await down(running);
  }
}, 180_000);

/** What can be imported of an installed library that has types. */
async function entriesOf(library: string): Promise<{ id: string; types: string }[]> {
  const home = path.join(folder, 'node_modules', library);
  const { exports: all } = JSON.parse(await readFile(path.join(home, 'package.json'), 'utf8')) as {
    exports: Record<string, string | { types: string }>;
  };
  return Object.entries(all).flatMap(([subpath, target]) =>
    typeof target === 'string'
      ? []
      : [{ id: path.posix.join(library, subpath), types: path.join(home, target.types) }],
  );
}

/** Imports each export of a library by its name: values, which exist, and types, which are not `any`. */
function consumerOf(library: string, types: string): { source: string; values: string[] } {
  const program = ts.createProgram([types], { module: ts.ModuleKind.NodeNext, noLib: true });
  const checker = program.getTypeChecker();
  const file = program.getSourceFile(types);
  const symbol = file === undefined ? undefined : checker.getSymbolAtLocation(file);
  const exported = symbol === undefined ? [] : checker.getExportsOfModule(symbol);
  const isValue = (one: ts.Symbol): boolean => {
    const real = one.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(one) : one;
    return (real.flags & ts.SymbolFlags.Value) !== 0;
  };
  const values = exported.filter(isValue).map(({ name }) => name);
  const names = exported.map((one) => (isValue(one) ? one.name : `type ${one.name}`));
  const known = values.map((name) => `known<typeof ${name}>()`);
  return {
    values,
    source: [
      `import { ${names.join(', ')} } from '${library}';`,
      'type Known<T> = 0 extends 1 & T ? false : true;',
      'function known<T>(..._: Known<T> extends true ? [] : [never]): void {}',
      `${known.join(';\n')};`,
      `console.log(JSON.stringify({ ${values.join(', ')} }, (_, value) => typeof value === 'function' ? 'function' : value));`,
    ].join('\n'),
  };
}

const TSCONFIG = {
  compilerOptions: {
    strict: true,
    module: 'nodenext',
    target: 'es2023',
    types: ['node'],
    outDir: 'built',
    lib: ['es2023', 'esnext.disposable', 'dom'],
    skipLibCheck: false,
  },
  include: ['*.mts'],
};

test('every export of the libraries can be imported, and its types are found', async () => {
  await symlink(path.join(ROOT, 'node_modules/@types'), path.join(folder, 'node_modules/@types'));
  await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify(TSCONFIG));
  const consumers = (await Promise.all(LIBRARIES.map(entriesOf))).flat().map((entry) => ({
    name: entry.id.replaceAll(/[@/]/gu, '-'),
    ...consumerOf(entry.id, entry.types),
  }));
  expect(consumers.map(({ name }) => name)).toContain('-leasehold-client-testing');
  for (const { name, source } of consumers) {
    await writeFile(path.join(folder, `${name}.mts`), source);
  }

  const compiler = path.join(ROOT, 'node_modules/typescript/bin/tsc');
  const problems = await run(process.execPath, [compiler], { cwd: folder }).then(
    () => '',
    (error: unknown) => (error as { stdout: string }).stdout,
  );

  expect(problems).toBe('');
  for (const { name, values } of consumers) {
    const { stdout } = await run(process.execPath, [`built/${name}.mjs`], { cwd: folder, env });
    expect(values.length).toBeGreaterThan(0);
    expect(Object.keys(JSON.parse(stdout) as object).sort()).toEqual(values.sort());
  }
}, 60_000);
