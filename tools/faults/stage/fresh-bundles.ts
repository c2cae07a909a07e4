import { execFile } from 'node:child_process';
import { copyFile, readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const REPOSITORY = path.resolve(import.meta.dirname, '..', '..', '..');

/** The file of an app as it ships. */
export function bundleFile(app: 'controller' | 'drone'): string {
  return path.join(REPOSITORY, 'apps', app, 'dist', 'main.mjs');
}

/** Builds the apps that these tests run, where a bundle is missing or older than a source. */
export async function freshBundles(): Promise<void> {
  await Promise.all((['controller', 'drone'] as const).map(build));
}

/**
 * A copy of the drone for one stage: an agent starts its warden from the same file much later, and a
 * build that happens meanwhile must not change it.
 */
export async function copyOfDrone(folder: string): Promise<string> {
  const copy = path.join(folder, 'drone.mjs');
  await copyFile(bundleFile('drone'), copy);
  return copy;
}

async function build(app: 'controller' | 'drone'): Promise<void> {
  if ((await changedAt(bundleFile(app))) > (await sourcesChangedAt(app))) return;
  const bundler = path.join(REPOSITORY, 'tools', 'build', 'bundle.mjs');
  await promisify(execFile)(process.execPath, [bundler, app]);
}

async function sourcesChangedAt(app: string): Promise<number> {
  const libs = await readdir(path.join(REPOSITORY, 'libs'));
  const folders = [path.join('apps', app), ...libs.map((lib) => path.join('libs', lib))];
  const times = await Promise.all(
    folders.map(async (folder) => {
      const sources = path.join(REPOSITORY, folder, 'src');
      const names = await readdir(sources, { recursive: true }).catch(() => []);
      const shipped = names.filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'));
      return Promise.all(shipped.map((name) => changedAt(path.join(sources, name))));
    }),
  );
  return Math.max(0, ...times.flat());
}

/** 0 for a file that is not there. */
async function changedAt(file: string): Promise<number> {
  return (await stat(file).catch(() => undefined))?.mtimeMs ?? 0;
}
