import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';

/** What there is under a command's name: a file to run, one that may not be run, or nothing. */
export type FoundCommand =
  | { readonly outcome: 'found'; readonly path: string }
  | { readonly outcome: 'not_executable' | 'not_found' };

/**
 * Looks for a command as shells do: a name with a slash is a path, any other is looked up in the
 * folders of `searchPath`.
 */
export function findCommand(name: string, searchPath: string): FoundCommand {
  const candidates = name.includes('/')
    ? [resolve(name)]
    : searchPath.split(delimiter).map((folder) => join(folder === '' ? '.' : folder, name));
  const files = candidates.filter(isFile);
  const path = files.find(isExecutable);
  if (path !== undefined) return { outcome: 'found', path };
  return { outcome: files.length > 0 ? 'not_executable' : 'not_found' };
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
