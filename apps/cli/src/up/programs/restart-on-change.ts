import path from 'node:path';
import { createControllerClient, type ControllerApi } from '@leasehold/client';
import { printable } from '../../output/printable.ts';
import { messageOf } from '../checks/space-wait.ts';
import type { Progress } from '../progress.ts';
import type { WatchTarget } from '../up-drone.ts';
import { watchFiles, type FileWatch } from './watch-files.ts';

/** How many backends are asked for at once. */
const PAGE_SIZE = 100;
/** More changed files are only counted. */
const NAMED_MAX = 2;

export interface RestartOptions {
  readonly targets: readonly WatchTarget[];
  readonly access: { readonly url: string; readonly token: string };
  readonly progress: Progress;
}

/**
 * Stops the backends of a program softly when its files change: the next connect starts the new version. What
 * is watched, each change, and what cannot be watched is said.
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

function filesText(files: readonly string[]): string {
  const named = files.slice(0, NAMED_MAX).map((file) => printable(path.basename(file)));
  const more = files.length - named.length;
  return `${named.join(', ')}${more > 0 ? ` and ${String(more)} more` : ''}`;
}

function shownPath(file: string): string {
  const relative = path.relative('.', file);
  return printable(relative.startsWith('..') || relative === '' ? file : relative);
}
