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
import path from 'node:path';

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
