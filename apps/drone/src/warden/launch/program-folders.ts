/**
 * The folders that a drone keeps for its programs: one for each program, which its backends share and
 * which stays (`HOME`), and one for each backend, which goes with it (`TMPDIR`).
 *
 * They are in the drone's state folder, which a program's own user may not enter. Where a backend has
 * its own view of the files they are shown in it. Where it has none, and another user than the
 * warden, they are in the machine's folder for temporary files.
 */
import { execFile } from 'node:child_process';
import { chownSync, lstatSync, mkdirSync, readdirSync, rmdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { LaunchMeans } from './isolation.ts';
import type { UserIds } from '../link/protocol.ts';

export interface ProgramFolders {
  /** The folders above those of programs, outermost first. */
  readonly above: readonly string[];
  readonly data: string;
  readonly temporary: string;
}

export interface FolderOwner {
  readonly program: string;
  readonly backendId: string;
  readonly user: UserIds | null;
}

type Means = Pick<LaunchMeans, 'mount' | 'drop'>;

const TEMPORARY = 'tmp';
const PRIVATE = 0o700;
/** May be entered, but not listed. */
const PASSABLE = 0o711;

/** Where the folders of a backend are; see the top of this file. */
export function foldersOf(
  stateDir: string,
  { mount }: Pick<Means, 'mount'>,
  { program, backendId, user }: FolderOwner,
): ProgramFolders {
  const isReachable = mount !== null || user === null;
  const root = isReachable ? stateDir : path.join(os.tmpdir(), `leasehold-${String(user.uid)}`);
  const [data, temporary] = [path.join(root, 'data'), path.join(root, TEMPORARY)];
  return {
    above: [...(isReachable ? [] : [root]), data, temporary],
    data: path.join(data, program),
    temporary: path.join(temporary, backendId),
  };
}

/**
 * Makes the folders of a backend, for its user alone.
 * @throws {Error} when one belongs to somebody else: then it is not trusted, and not taken over.
 */
export function makeFolders(
  { above, data, temporary }: ProgramFolders,
  user: UserIds | null,
): void {
  for (const folder of above) makeFolder(folder, null, PASSABLE);
  for (const folder of [data, temporary]) makeFolder(folder, user, PRIVATE);
}

function makeFolder(folder: string, user: UserIds | null, mode: number): void {
  const owner = user?.uid ?? process.getuid?.() ?? 0;
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (found === undefined) {
    mkdirSync(folder, { mode });
    if (user !== null) chownSync(folder, user.uid, user.gid);
  } else if (!found.isDirectory() || found.uid !== owner) {
    throw new Error(
      `${folder} belongs to user ${String(found.uid)}; it must be a folder of user ${String(owner)}`,
    );
  }
}

/**
 * Removes the temporary files of a backend that is gone. What is in them is removed by the user whom
 * they belong to: another process of that user could mislead a removal by anybody else.
 */
export function removeTemporary(folder: string, user: UserIds | null, { drop }: Means): void {
  const [file, ...args] = [...drop(user), 'rm', '-rf', '--', folder];
  // It may not remove the folder itself, whose parent is the warden's.
  execFile(file, args, { cwd: '/', env: { PATH: '/usr/bin:/bin' } }, () => {
    try {
      rmdirSync(folder);
    } catch {
      // Gone already, or not empty: then the next warden of this folder tries again.
    }
  });
}

/** Removes what wardens that were killed have left. Nothing of theirs runs any more. */
export function removeLeftTemporary(stateDir: string, means: Means): void {
  const root = path.join(stateDir, TEMPORARY);
  if (lstatSync(root, { throwIfNoEntry: false }) === undefined) return;
  for (const name of readdirSync(root)) {
    const folder = path.join(root, name);
    const { uid, gid } = lstatSync(folder);
    removeTemporary(folder, uid === (process.getuid?.() ?? 0) ? null : { uid, gid }, means);
  }
}
