/**
 * `npm run test:changed`: for daily work. Lints, checks, builds and tests the projects that a change
 * concerns: those with changed files, and those that depend on them (nx affected). Changed is what
 * is not in `main`, committed or not; another base is an argument: `npm run test:changed -- HEAD~1`.
 * Of their tests it runs those of the gate; tests in a browser are left to `npm run e2e`.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { ensurePackages } from './install/debian.mjs';
import { findProjects, linters } from './suite/linters.mjs';
import { generate, install, NX_ENVIRONMENT, root, runInstalled, runNx } from './workspace.mjs';

const capture = promisify(execFile);

const base = process.argv[2] ?? (await baseOfBranch());
await must('install', () => install('install'));
await must('generate', generate);
const folders = await affectedFolders();
if (folders.length === 0) {
  console.log(`Nothing has changed since ${base}.`);
  process.exit(0);
}
console.log(`Since ${base.slice(0, 12)}: ${folders.join(', ')}`);
await must('project graph', findProjects);
for (const { name, run } of linters(folders)) await must(name, run);
// Tests of processes run the bundles of all apps.
await must('build', () => runNx(['run-many', '-t', 'build', '--outputStyle=static']));
await ensurePackages(['etcd-server']);
await must('tests', () =>
  runInstalled('.bin/vitest', ['run', '--passWithNoTests', ...folders.map((one) => `${one}/`)], {
    env: { LEASEHOLD_TEST_SUITE: 'gate' },
  }),
);

/** Where this branch left main; the commit before on main itself, when nothing is uncommitted. */
async function baseOfBranch() {
  const main = await git('merge-base', 'HEAD', 'main').catch(() => git('rev-parse', 'HEAD'));
  const [head, changes] = [await git('rev-parse', 'HEAD'), await git('status', '--porcelain')];
  return main === head && changes === '' ? git('rev-parse', 'HEAD~1') : main;
}

async function git(...args) {
  const { stdout } = await capture('git', args, { cwd: root });
  return stdout.trim();
}

async function affectedFolders() {
  const { stdout } = await capture(
    process.execPath,
    [
      path.join(root, 'node_modules/.bin/nx'),
      'show',
      'projects',
      '--affected',
      `--base=${base}`,
      '--json',
    ],
    { cwd: root, env: { ...process.env, ...NX_ENVIRONMENT } },
  );
  const names = new Set(JSON.parse(stdout));
  const files = (await git('ls-files', '*/package.json', '*/project.json')).split('\n');
  const named = await Promise.all(
    files.map(async (file) => ({
      folder: path.dirname(file),
      name: JSON.parse(await readFile(path.join(root, file), 'utf8')).name,
    })),
  );
  return named.flatMap(({ folder, name }) => (names.has(name) ? [folder] : []));
}

async function must(step, work) {
  if ((await work()) === 0) return;
  console.error(`npm run test:changed: the step "${step}" failed.`);
  process.exit(1);
}
