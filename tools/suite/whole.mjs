/**
 * All projects as one program, for `npm test`. Project by project, the compiler and the linter read
 * and judge the libraries again for each project that uses them: twice to four times the work.
 *
 * Projects with compiler options of their own, such as the console with its browser types, stay
 * programs of their own. What is written is made from the projects' own `tsconfig.json` each time,
 * so that it includes new projects by itself.
 */
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { root } from '../workspace.mjs';

/** Where the projects are, and everything that is linted. */
export const FOLDERS = ['libs', 'apps', 'examples', 'tools', 'e2e'];

/** The configuration of the whole, below the folder of the repository. */
export const WHOLE = path.join('.test-results', 'tsconfig.whole.json');

/** Writes this configuration. @returns the folders of the projects that are no part of it. */
export async function writeWhole() {
  const projects = (await Promise.all(FOLDERS.map(projectsIn))).flat();
  const [own, common] = [true, false].map((isOwn) =>
    projects.filter(({ config }) => 'compilerOptions' in config === isOwn),
  );
  const whole = {
    extends: '../tsconfig.base.json',
    include: common.flatMap(({ folder, config }) =>
      config.include.map((pattern) => path.posix.join('..', folder, pattern)),
    ),
    exclude: ['../**/node_modules', '../**/dist'],
  };
  await mkdir(path.join(root, path.dirname(WHOLE)), { recursive: true });
  // Moved into place: the compiler may read it at this moment.
  const draft = path.join(root, `${WHOLE}.${process.pid}`);
  await writeFile(draft, `${JSON.stringify(whole, null, 2)}\n`);
  await rename(draft, path.join(root, WHOLE));
  return own.map(({ folder }) => folder);
}

/** The projects in a folder and directly below it. */
async function projectsIn(folder) {
  const entries = await readdir(path.join(root, folder), { withFileTypes: true });
  const below = entries
    .filter((entry) => entry.isDirectory() && entry.name !== 'node_modules')
    .map((entry) => path.posix.join(folder, entry.name));
  const found = await Promise.all([folder, ...below].map(readProject));
  return found.filter((project) => project !== undefined);
}

async function readProject(folder) {
  const text = await readFile(path.join(root, folder, 'tsconfig.json'), 'utf8').catch(
    () => undefined,
  );
  return text === undefined ? undefined : { folder, config: JSON.parse(text) };
}
