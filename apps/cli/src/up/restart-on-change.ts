import { readdirSync, statSync, watch, type FSWatcher } from 'node:fs';
import path from 'node:path';
import { createControllerClient, type ControllerApi } from '@leasehold/client';
import { printable } from '../output/text.ts';
import { messageOf, type Progress } from './progress.ts';
import type { WatchTarget } from './up-drone.ts';

/** How many backends are asked for at once, and of how many that have ended the keys may be started at once. */
const PAGE_SIZE = 100;
/** More changed files are only counted. */
const NAMED_MAX = 2;

interface RestartOptions {
  readonly targets: readonly WatchTarget[];
  readonly access: { readonly url: string; readonly token: string };
  readonly progress: Progress;
}

/**
 * Stops the backends of a program softly when its files change: the next connect starts the new version, at once also
 * where the one before has crashed again and again. What is watched, each change, and what cannot be watched is said.
 */
export function restartOnChange({ targets, access, progress }: RestartOptions): FileWatch {
  const connection = createControllerClient({ ...access, transport: 'http' });
  /** One change after the other. */
  let queue = Promise.resolve();
  const changed = (name: string, files: readonly string[]): void => {
    queue = queue.then(async () => {
      progress.say(`  ${filesText(files)} changed: ${await stopBackends(connection.api, name)}`);
    });
  };
  const watches = targets.flatMap(({ name, command, paths }) => {
    if (paths.length === 0) {
      progress.warn(`${name} (${printable(command)}) is not watched: no word of it is a script`);
      return [];
    }
    const what = `${name}: ${paths.map(shownPath).join(', ')}`;
    const onProblem = (error: unknown): void =>
      progress.warn(`no longer watched, ${what}: ${messageOf(error)}`);
    try {
      const onChange = (files: readonly string[]): void => changed(name, files);
      const watching = watchFiles(paths, { onChange, onProblem });
      progress.say(`  watching ${what}`);
      return [watching];
    } catch (error) {
      progress.warn(`cannot be watched, ${what}: ${messageOf(error)}`);
      return [];
    }
  });
  return {
    close() {
      for (const watching of watches) watching.close();
      void connection.close();
    },
  };
}

/** @returns what was done, for people. */
async function stopBackends(api: ControllerApi, program: string): Promise<string> {
  try {
    const count = await stopAll(api, program);
    await forgetFailures(api, program);
    if (count === 0) return `no backend of ${program} runs`;
    const backends = count === 1 ? 'the backend' : `${String(count)} backends`;
    return `${backends} of ${program} will stop, and the next connect starts the new version`;
  } catch (error) {
    return `the backends of ${program} could not be stopped: ${messageOf(error)}`;
  }
}

async function stopAll(api: ControllerApi, program: string): Promise<number> {
  const running: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await api.backends.list.query({ program, live: true, limit: PAGE_SIZE, cursor });
    const started = page.items.filter(({ status }) => status !== 'terminating');
    running.push(...started.map(({ backendId }) => backendId));
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  const reason = 'its program has changed';
  for (const backendId of running) {
    await api.backends.terminate.mutate({ backendId, mode: 'soft', reason });
  }
  return running.length;
}

/** The new version is not made to wait for what the old one did. */
async function forgetFailures(api: ControllerApi, program: string): Promise<void> {
  const { items } = await api.backends.list.query({ program, limit: PAGE_SIZE });
  const ended = items.filter(({ status }) => status === 'terminated');
  const keys = new Map(ended.map(({ key }) => [`${key.namespace}/${key.name}`, key]));
  for (const { name, namespace } of keys.values()) {
    await api.keys.resetFailures.mutate({ name, namespace, reason: 'its program has changed' });
  }
}

function filesText(files: readonly string[]): string {
  const named = files.slice(0, NAMED_MAX).map((file) => printable(path.basename(file)));
  const more = files.length - named.length;
  return `${named.join(', ')}${more > 0 ? ` and ${String(more)} more` : ''}`;
}

function shownPath(file: string): string {
  const relative = path.relative('.', file);
  return printable(relative.startsWith('..') || relative === '' ? file : relative);
}

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
 * Folders are watched and not files, because many editors write a new file and rename it; what has changed is then
 * found by looking, so that no event is believed.
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
