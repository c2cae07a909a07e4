import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** What there is under a command's name: a file to run, one that may not be run, or nothing. */
type FoundCommand =
  | { readonly outcome: 'found'; readonly path: string }
  | { readonly outcome: 'not_executable' | 'not_found' };

/**
 * Looks for a command as shells do: a name with a slash is a path, any other is looked up in the
 * folders of `searchPath`. A folder that cannot be searched is passed over; a path that is there, or cannot be
 * looked at, may not be executed.
 */
export function findCommand(name: string, searchPath: string): FoundCommand {
  if (name.includes('/')) {
    const kind = kindOf(name);
    if (kind === 'file' && isExecutable(name)) return { outcome: 'found', path: name };
    return { outcome: kind === 'missing' ? 'not_found' : 'not_executable' };
  }
  const files = searchPath
    .split(delimiter)
    .map((folder) => join(folder === '' ? '.' : folder, name))
    .filter((path) => kindOf(path) === 'file');
  const path = files.find(isExecutable);
  if (path !== undefined) return { outcome: 'found', path };
  return { outcome: files.length > 0 ? 'not_executable' : 'not_found' };
}

function kindOf(path: string): 'file' | 'other' | 'missing' {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) return 'missing';
    return found.isFile() ? 'file' : 'other';
  } catch {
    // Such as EACCES, ENAMETOOLONG or ELOOP.
    return 'other';
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
