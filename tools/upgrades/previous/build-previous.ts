/** Builds the previous version from its own source, once, and keeps it in `node_modules/.cache`. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { unpackCommit } from './commit-source.ts';
import { findPrevious, type PreviousVersion } from './find-previous.ts';

/** A build of the previous version, with the layout of the repository. */
export interface PreviousBuild extends PreviousVersion {
  readonly folder: string;
  readonly controller: string;
  readonly drone: string;
  readonly migrations: string;
}

const ROOT = path.resolve(import.meta.dirname, '..', '..', '..');
const CACHE = path.join(ROOT, 'node_modules', '.cache', 'leasehold', 'previous');
const APPS = ['controller', 'drone'] as const;
const SOURCES = ['apps', 'libs', 'prisma', 'tools', 'package.json', 'package-lock.json'];
/** What is not linked: the workspace's own packages, which must be those of the previous version. */
const OWN = new Set(['@leasehold', '.cache', '.bin', '.package-lock.json']);

interface Manifest {
  readonly version?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}

let building: Promise<PreviousBuild> | undefined;

/** @throws when the previous version is not in this clone, or cannot be built. */
export function buildPrevious(): Promise<PreviousBuild> {
  building ??= buildOnce();
  return building;
}

async function buildOnce(): Promise<PreviousBuild> {
  const previous = await findPrevious();
  const folder = path.join(CACHE, previous.commit);
  if (!existsSync(folder)) await buildInto(folder, previous);
  return {
    ...previous,
    folder,
    controller: path.join(folder, 'apps', 'controller', 'dist', 'main.mjs'),
    drone: path.join(folder, 'apps', 'drone', 'dist', 'main.mjs'),
    migrations: path.join(folder, 'prisma', 'migrations'),
  };
}

/** Whole or not at all: several test files may build it at the same time. */
async function buildInto(folder: string, previous: PreviousVersion): Promise<void> {
  await mkdir(CACHE, { recursive: true });
  const draft = await mkdtemp(path.join(CACHE, 'draft-'));
  try {
    await unpackCommit(previous.commit, { repository: ROOT, folder: draft, paths: SOURCES });
    if (await hasSameDependencies(draft)) await linkDependencies(draft);
    else await run(draft, 'npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund']);
    const bundler = path.join('tools', 'build', 'bundle.mjs');
    await Promise.all(APPS.map((app) => run(draft, process.execPath, [bundler, app])));
    await rename(draft, folder).catch((error: unknown) => {
      if (!existsSync(folder)) throw error; // Somebody else was faster.
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Whether what the apps depend on is installed here in the same versions. */
async function hasSameDependencies(folder: string): Promise<boolean> {
  const libs = await readdir(path.join(folder, 'libs'));
  const projects = [...APPS.map((app) => `apps/${app}`), ...libs.map((lib) => `libs/${lib}`)];
  const wanted = projects
    .filter((project) => project !== 'libs/testing')
    .map(async (project) => {
      const { dependencies = {} } = (await manifestIn(path.join(folder, project))) ?? {};
      const checks = Object.entries(dependencies)
        .filter(([name]) => !name.startsWith('@leasehold/'))
        .map(([name, version]) => isInstalled(project, name, version));
      return (await Promise.all(checks)).every(Boolean);
    });
  return (await Promise.all(wanted)).every(Boolean);
}

/** One that is not installed at all is not refused: where it is needed, the build fails. */
async function isInstalled(project: string, name: string, version: string): Promise<boolean> {
  const manifest =
    (await manifestIn(path.join(ROOT, project, 'node_modules', name))) ??
    (await manifestIn(path.join(ROOT, 'node_modules', name)));
  return manifest === undefined || manifest.version === version;
}

async function manifestIn(folder: string): Promise<Manifest | undefined> {
  const text = await readFile(path.join(folder, 'package.json'), 'utf8').catch(() => undefined);
  return text === undefined ? undefined : (JSON.parse(text) as Manifest);
}

/** As npm lays them out: those of this clone, but the workspace's own are those of the folder. */
async function linkDependencies(folder: string): Promise<void> {
  const modules = path.join(folder, 'node_modules');
  await mkdir(path.join(modules, '@leasehold'), { recursive: true });
  const installed = await readdir(path.join(ROOT, 'node_modules'));
  const links = installed
    .filter((name) => !OWN.has(name))
    .map((name) => symlink(path.join(ROOT, 'node_modules', name), path.join(modules, name)));
  for (const group of ['libs', 'apps']) {
    for (const name of await readdir(path.join(folder, group))) {
      links.push(symlink(`../../${group}/${name}`, path.join(modules, '@leasehold', name)));
      const nested = path.join(group, name, 'node_modules');
      if (!existsSync(path.join(ROOT, nested))) continue;
      links.push(symlink(path.join(ROOT, nested), path.join(folder, nested)));
    }
  }
  await Promise.all(links);
}

async function run(cwd: string, program: string, args: readonly string[]): Promise<void> {
  await promisify(execFile)(program, args, { cwd });
}
