/** Builds the console and the controller of another commit, and keeps the build for the next run. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { findMigrationsDir } from '@leasehold/keys-core/postgres';
import { commitOf, unpackCommit } from '../../upgrades/previous/commit-source.ts';
import { findPrevious } from '../../upgrades/previous/find-previous.ts';

/** Both programs of a commit, in the layout of the repository. */
export interface ConsoleBuild {
  /** How a figure names it. */
  readonly name: string;
  readonly folder: string;
}

const run = promisify(execFile);
const ROOT = path.dirname(path.dirname(findMigrationsDir()));
const CACHE = path.join(ROOT, 'node_modules', '.cache', 'leasehold', 'bench');
/** Written last: a folder without it was not finished. */
const MARK = 'built.txt';
const SHORT_LENGTH = 8;
const PRINTED_BYTES_MAX = 200 * 1_048_576;

/** What stands in this clone. @throws unless `npm run build` was run. */
export function presentBuild(): ConsoleBuild {
  const isBuilt = ['controller', 'console'].every((app) => existsSync(programOf(ROOT, app)));
  if (!isBuilt) throw new Error('the console is measured as it ships: run `npm run build` first');
  return { name: 'now', folder: ROOT };
}

/** Where the program of an app is. */
export function programOf(folder: string, app: string): string {
  return path.join(folder, 'apps', app, 'dist', 'main.mjs');
}

/** Builds a commit; without one, the newest tag before this commit, or else the recorded previous version. */
export async function buildCommit(wanted: string | undefined): Promise<ConsoleBuild> {
  const commit =
    wanted === undefined ? (await findPrevious(ROOT)).commit : await commitOf(wanted, ROOT);
  const folder = path.join(CACHE, commit);
  if (!existsSync(path.join(folder, MARK))) {
    process.stderr.write(`building ${commit.slice(0, SHORT_LENGTH)} …\n`);
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    await unpackCommit(commit, { repository: ROOT, folder });
    await installIn(folder);
    await node(folder, path.join('tools', 'build', 'bundle.mjs'), 'controller');
    await node(folder, path.join('apps', 'console', 'build.mjs'));
    await writeFile(path.join(folder, MARK), commit);
  }
  return { name: commit.slice(0, SHORT_LENGTH), folder };
}

/** Links the packages of this clone where the lock file is the same: Next refuses links to folders. */
async function installIn(folder: string): Promise<void> {
  const [here, there] = await Promise.all(
    [ROOT, folder].map((root) => readFile(path.join(root, 'package-lock.json'), 'utf8')),
  );
  if (here !== there) {
    const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
    await run('npm', args, { cwd: folder, maxBuffer: PRINTED_BYTES_MAX });
    return;
  }
  const packages = await readdir(path.join(ROOT, 'node_modules'));
  await mkdir(path.join(folder, 'node_modules'));
  for (const name of packages.filter((each) => each !== '.cache')) {
    await hardLink(path.join('node_modules', name), folder);
  }
  for (const group of ['apps', 'libs']) {
    for (const project of await readdir(path.join(folder, group))) {
      const nested = path.join(group, project, 'node_modules');
      if (existsSync(path.join(ROOT, nested))) await hardLink(nested, folder);
    }
  }
}

async function hardLink(what: string, folder: string): Promise<void> {
  const [from, to] = [path.join(ROOT, what), path.join(folder, what)];
  await run('cp', ['-al', from, to]).catch(() => cp(from, to, { recursive: true }));
}

async function node(folder: string, ...args: readonly string[]): Promise<void> {
  await run(process.execPath, [...args], { cwd: folder, maxBuffer: PRINTED_BYTES_MAX });
}
