/**
 * Tells when files change. Folders are watched and not files, because many editors write a new file and
 * rename it; what has changed is then found by looking, so that no event is believed.
 */
import { readdirSync, statSync, watch, type FSWatcher } from 'node:fs';
import path from 'node:path';

/** A change is reported once nothing has changed for this time: editors and tools write in several steps. */
const QUIET_MS = 100;
/** In folders that are watched. */
const FILES_MAX = 20_000;
/** Folders whose files are made by tools, or are no sources. */
const PASSED_OVER: ReadonlySet<string> = new Set(['node_modules', '__pycache__', 'venv']);
/** What a program writes while it runs: its start would be a change that stops it. */
const WRITTEN = /(?:~|\.(?:log|pid|tmp|db|sqlite3?)(?:-\w+)?)$/u;

export interface FileWatch {
  close(): void;
}

/**
 * Watches files, and folders with all that is in them, without what is hidden, installed, or written by programs.
 * @param onChange called with the files that have changed, or in folders have come or gone.
 * @param onProblem called when something can no longer be watched.
 * @throws {Error} when it cannot be watched.
 */
export function watchFiles(
  paths: readonly string[],
  hooks: {
    readonly onChange: (files: readonly string[]) => void;
    readonly onProblem: (error: unknown) => void;
  },
): FileWatch {
  const watchers = new Map<string, { watcher: FSWatcher; inode: number }>();
  let last = look(paths);
  let timer: NodeJS.Timeout | undefined;

  function onEvent(): void {
    clearTimeout(timer);
    timer = setTimeout(() => {
      try {
        check();
      } catch (error) {
        hooks.onProblem(error);
      }
    }, QUIET_MS);
  }

  function check(): void {
    const now = look(paths);
    const changed = changesBetween(last, now, paths);
    // A file that is gone for a moment is compared with what it was before.
    last = { ...now, files: new Map([...keptOf(last, now, paths), ...now.files]) };
    follow(now.folders);
    if (changed.length > 0) hooks.onChange(changed);
  }

  /** Watches these folders alone. One that was removed and made again is another one. */
  function follow(folders: ReadonlyMap<string, number>): void {
    for (const [folder, { watcher, inode }] of watchers) {
      if (folders.get(folder) === inode) continue;
      watcher.close();
      watchers.delete(folder);
    }
    for (const [folder, inode] of folders) {
      if (watchers.has(folder)) continue;
      const watcher = watch(folder, onEvent).on('error', hooks.onProblem);
      watchers.set(folder, { watcher, inode });
    }
  }

  follow(last.folders);
  return {
    close() {
      clearTimeout(timer);
      follow(new Map());
    },
  };
}

interface Look {
  /** What tells one state of a file from another. */
  readonly files: ReadonlyMap<string, string>;
  /** The folders that events come from, by their inodes. */
  readonly folders: ReadonlyMap<string, number>;
}

function look(paths: readonly string[]): Look {
  const files = new Map<string, string>();
  const folders = new Map<string, number>();

  function visit(place: string): void {
    const found = statOf(place);
    if (found?.isFile() === true) {
      files.set(place, [found.mtimeMs, found.size, found.ino].join(' '));
      if (files.size > FILES_MAX) throw new Error(`more than ${String(FILES_MAX)} files to watch`);
    }
    if (found?.isDirectory() !== true || folders.has(place)) return;
    folders.set(place, found.ino);
    for (const { name, isLink } of entriesOf(place)) {
      // A link may lead to a folder above.
      const isLeftOut = isLink || name.startsWith('.') || PASSED_OVER.has(name);
      if (!isLeftOut && !WRITTEN.test(name)) visit(path.join(place, name));
    }
  }

  for (const place of paths) visit(place);
  for (const place of paths) {
    const folder = path.dirname(place);
    const found = statOf(folder);
    if (found !== undefined && !folders.has(folder)) folders.set(folder, found.ino);
  }
  return { files, folders };
}

function changesBetween(before: Look, now: Look, paths: readonly string[]): string[] {
  const changed = [...now.files].filter(([file, state]) => before.files.get(file) !== state);
  // One that was named may come back: its editor has just removed it.
  const gone = [...before.files.keys()].filter(
    (file) => !now.files.has(file) && !paths.includes(file),
  );
  return [...changed.map(([file]) => file), ...gone];
}

/** Of the files that were named, those that are not there now. */
function keptOf(before: Look, now: Look, paths: readonly string[]): [string, string][] {
  return [...before.files].filter(([file]) => paths.includes(file) && !now.files.has(file));
}

function entriesOf(folder: string): { name: string; isLink: boolean }[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).map((entry) => ({
      name: entry.name,
      isLink: entry.isSymbolicLink(),
    }));
  } catch {
    // It is gone already, or may not be read.
    return [];
  }
}

function statOf(file: string) {
  try {
    return statSync(file, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
