/** The files of a program: what its backends see of the machine's, and the folders that the drone keeps for it. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  fchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { nameOfStateFolder } from '../records.ts';
import type { UserIds } from './protocol.ts';

/**
 * What a backend sees of the machine's files: all of it, except for folders that are covered by empty
 * ones. In a cover only what the program needs is shown again.
 *
 * Folders are covered for two reasons: they are Leasehold's own (`hidden`), or the program's user may
 * not enter them although something below is the program's (`blocked`, such as root's home with a
 * clone in it). A cover is built in a folder of the drone, while everything can still be seen, and
 * then put in its place. Folders with which the program's user could change the drone (`fixed`)
 * become read-only after that.
 */
export interface ViewRequest {
  /** An empty folder in which covers are built; it is in a hidden folder. */
  readonly workshop: string;
  readonly hidden: readonly string[];
  readonly blocked: readonly string[];
  /** Folders that the program reads: shown where a cover would take them away. */
  readonly reads: readonly string[];
  /** Folders of the drone that are the program's own. */
  readonly writes: readonly string[];
  /** The size of a `/dev/shm` of its own; left out where it sees the machine's. */
  readonly sharedMemoryBytes?: number | undefined;
}

const SHARED_MEMORY = '/dev/shm';
const COVER_OPTIONS = 'mode=755,size=64k,nosuid,nodev,noexec';

/**
 * The mounts of one backend's namespace as `mount --all --fstab` reads them. All paths are absolute
 * and real. Nothing is mounted again with other options than its source has: a mount namespace that
 * belongs to a user namespace may not loosen them.
 */
export function mountTableOf(request: ViewRequest): string {
  const { workshop } = request;
  // The cover that hides the workshop comes last.
  const covers = [...coversOf(request)].sort(
    (a, b) => Number(isInside(workshop, a)) - Number(isInside(workshop, b)),
  );
  const places = covers.map((_cover, index) => path.join(workshop, String(index)));
  return [
    ...sharedMemory(request),
    // A mount of its own, so that places for covers can be made in it.
    line('tmpfs', workshop, 'tmpfs', COVER_OPTIONS),
    ...covers.flatMap((cover, index) => built(cover, places[index] ?? '', request)),
    ...covers.map((cover, index) => line(places[index] ?? '', cover, 'none', 'rbind')),
  ].join('');
}

/** As large as it is on a machine with as much memory, and gone with the backend. */
function sharedMemory({ sharedMemoryBytes, workshop, reads, writes }: ViewRequest): string[] {
  const isInUse = [workshop, ...reads, ...writes].some((folder) => isInside(folder, SHARED_MEMORY));
  if (sharedMemoryBytes === undefined || isInUse) return [];
  const options = `mode=1777,size=${String(sharedMemoryBytes)},nosuid,nodev,X-mount.mkdir`;
  // `mount --all` leaves out what is there already, by its source too.
  return [line('leasehold', SHARED_MEMORY, 'tmpfs', options)];
}

/** The folders that are covered: a folder in another one of them needs no cover of its own. */
export function coversOf({
  hidden,
  blocked,
}: Pick<ViewRequest, 'hidden' | 'blocked'>): readonly string[] {
  return outermost([...hidden, ...blocked]);
}

function built(cover: string, place: string, of: ViewRequest): string[] {
  const at = (folder: string): string => path.join(place, path.relative(cover, folder));
  const reads = outermost(of.reads.filter((folder) => isInside(folder, cover)));
  // A folder that is shown also shows the hidden folders below it.
  const hiddenAgain = outermost(
    of.hidden.filter((folder) => reads.some((read) => isInside(folder, read))),
  );
  const writes = of.writes.filter((folder) => isInside(folder, cover));
  return [
    line('tmpfs', place, 'tmpfs', `${COVER_OPTIONS},X-mount.mkdir`),
    ...reads.map((folder) => line(folder, at(folder), 'none', 'bind,X-mount.mkdir')),
    ...hiddenAgain.map((folder) => line('tmpfs', at(folder), 'tmpfs', COVER_OPTIONS)),
    ...writes.map((folder) => line(folder, at(folder), 'none', 'bind,X-mount.mkdir')),
  ];
}

/** Whether a folder is below another one; false for the same one. */
export function isInside(folder: string, other: string): boolean {
  const relative = path.relative(other, folder);
  return relative !== '' && relative !== '..' && !relative.startsWith(`..${path.sep}`);
}

/** Without those that are in another one, and each once. */
function outermost(folders: readonly string[]): string[] {
  return [...new Set(folders)].filter(
    (folder) => !folders.some((other) => isInside(folder, other)),
  );
}

function line(source: string, target: string, type: string, options: string): string {
  return `${field(source)} ${field(target)} ${type} ${options} 0 0\n`;
}

/** As `fstab` writes blanks, line ends and backslashes. */
function field(text: string): string {
  return text.replaceAll(
    /[\s\\#]/gu,
    (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`,
  );
}

/**
 * The folders that a drone keeps for its programs: one for each program, which its backends share and
 * which stays (`HOME`), and one for each backend, which goes with it (`TMPDIR`).
 *
 * They are in the drone's state folder, which a program's own user may not enter. Where a backend has
 * its own view of the files they are shown in it. Where it has none, and another user than the
 * warden, they are in the machine's folder for temporary files: see {@link prepareFolders}.
 */
export interface ProgramFolders {
  /** The folders above those of programs, outermost first. */
  readonly above: readonly string[];
  readonly data: string;
  readonly temporary: string;
  /** Where a warm process finds its claim; null for one that never was warm. */
  readonly claim: string | null;
}

interface FolderOwner {
  readonly program: string;
  /** Of its backend, or of the warm process. */
  readonly id: string;
  readonly user: UserIds | null;
  readonly isWarm: boolean;
}

/** The part of `LaunchMeans` that this needs. */
interface Means {
  readonly mount: string | null;
  readonly drop: (user: UserIds | null) => readonly string[];
}

const TEMPORARY = 'tmp';
const CLAIMS = 'claims';
const CLAIM_FILE = 'claim.json';
const PRIVATE = 0o700;
/** Its program may remove its own file from it, and no other. */
const SHARED = 0o1770;
/** May be entered, but not listed. */
const PASSABLE = 0o711;

/** Where the folders of a backend are. */
export function foldersOf(
  stateDir: string,
  { mount }: Pick<Means, 'mount'>,
  { program, id, user, isWarm }: FolderOwner,
): ProgramFolders {
  const isReachable = mount !== null || user === null;
  const root = isReachable ? stateDir : outerRootOf(stateDir);
  const [data, temporary] = [path.join(root, 'data'), path.join(root, TEMPORARY)];
  const claims = path.join(root, CLAIMS);
  return {
    above: [...(isReachable ? [] : [root]), data, temporary, ...(isWarm ? [claims] : [])],
    data: path.join(data, program),
    temporary: path.join(temporary, id),
    claim: isWarm ? path.join(claims, id) : null,
  };
}

function outerRootOf(stateDir: string): string {
  return path.join(os.tmpdir(), nameOfStateFolder(stateDir));
}

/**
 * Makes the folders of a backend, for its user alone.
 * @throws {Error} when one belongs to somebody else: then it is not trusted, and not taken over.
 */
export function makeFolders(
  { above, data, temporary, claim }: ProgramFolders,
  user: UserIds | null,
): void {
  for (const folder of above) makeFolder(folder, null, PASSABLE);
  for (const folder of [data, temporary]) makeFolder(folder, user, PRIVATE);
  if (claim === null) return;
  // The warden's own: it may not write to a folder of another user, and follows nothing that such a user puts there.
  mkdirSync(claim, { mode: PRIVATE });
  if (user !== null) chownSync(claim, process.getuid?.() ?? 0, user.gid);
  chmodSync(claim, SHARED);
}

/** The file in which a warm process finds its claim, and which it removes when it serves it. */
export function claimFileOf(folder: string): string {
  return path.join(folder, CLAIM_FILE);
}

/**
 * Writes the claim of a warm process: whole or not at all, for its user alone.
 * @throws {Error} when it cannot be written, as when the process has put something in its place.
 */
export function writeClaim(
  folder: string,
  user: UserIds | null,
  variables: Readonly<Record<string, string>>,
): void {
  const draft = path.join(folder, `.${randomUUID()}`);
  // Never through a link that is there already.
  const file = openSync(draft, 'wx', 0o600);
  try {
    writeFileSync(file, `${JSON.stringify(variables)}\n`);
    if (user !== null) fchownSync(file, user.uid, user.gid);
  } finally {
    closeSync(file);
  }
  renameSync(draft, claimFileOf(folder));
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
  try {
    // It may not remove the folder itself, whose parent is the warden's.
    execFile(file, args, { cwd: '/', env: { PATH: '/usr/bin:/bin' } }, () => {
      try {
        rmdirSync(folder);
      } catch {
        // Gone already, or not empty: then the next warden of this folder tries again.
      }
    });
  } catch {
    // The machine refuses a process, for lack of memory: the next warden of this folder tries again.
  }
}

/**
 * What a warden does at its start. Removes what wardens that were killed have left: nothing of theirs runs any more.
 * Makes the folder in the machine's folder for temporary files, where it may need one, because anybody may take its
 * name. `onProblem` is told when somebody has; programs that need it cannot be started then.
 */
export function prepareFolders(
  stateDir: string,
  means: Means,
  onProblem: (problem: string) => void,
): void {
  try {
    // Only root's programs may have users of their own.
    const isNeeded = means.mount === null && process.getuid?.() === 0;
    if (isNeeded) makeFolder(outerRootOf(stateDir), null, PASSABLE);
  } catch (error) {
    onProblem(String(error));
  }
  const roots = [stateDir, ...[outerRootOf(stateDir)].filter(isOwn)];
  const folders = roots.flatMap((root) => [TEMPORARY, CLAIMS].map((name) => path.join(root, name)));
  for (const root of folders.filter(isOwn)) {
    for (const name of readdirSync(root)) {
      const folder = path.join(root, name);
      const { uid, gid } = lstatSync(folder);
      removeTemporary(folder, uid === (process.getuid?.() ?? 0) ? null : { uid, gid }, means);
    }
  }
}

/** Nothing is removed through a folder or a link that somebody else has made. */
function isOwn(folder: string): boolean {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return found?.isDirectory() === true && found.uid === (process.getuid?.() ?? 0);
}
