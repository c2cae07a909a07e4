/** The files of the project, for tests that read all of them. */
import path from 'node:path';
import ts from 'typescript';

export const ROOT = path.join(import.meta.dirname, '..', '..');

const FOLDERS = ['libs', 'apps', 'tools', 'e2e', 'examples', 'integrations'];
/** What is installed, built or generated. */
const SKIPPED = ['**/node_modules', '**/dist', '**/generated', '**/.*'];

/** Files below a folder with one of these endings, from the root of the repository. */
export function filesBelow(folder: string, endings: readonly string[]): string[] {
  const found = ts.sys.readDirectory(path.join(ROOT, folder), endings, SKIPPED);
  return found.map((file) => path.relative(ROOT, file)).sort();
}

/** The code of all projects. */
export function codeFiles(endings: readonly string[] = ['.ts', '.tsx']): string[] {
  return FOLDERS.flatMap((folder) => filesBelow(folder, endings));
}
