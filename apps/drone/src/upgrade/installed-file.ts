import { chmodSync, closeSync, copyFileSync, existsSync, fsyncSync, openSync } from 'node:fs';
import { renameSync, rmSync } from 'node:fs';

const EXECUTABLE_MODE = 0o755;

/** A program in the place of another one, which is kept beside it. */
export interface InstalledFile {
  /** Where the former program is; undefined if no program was there. */
  readonly former: string | undefined;
  /** Puts the former program back. */
  undo(): void;
}

/** Replaces a file at once: a process that runs it keeps its own, and one that starts gets the old or the new one. */
export function installFile(program: string, target: string): InstalledFile {
  const former = existsSync(target) ? `${target}.former` : undefined;
  if (former !== undefined) replace(target, former);
  replace(program, target);
  return {
    former,
    undo: () => {
      if (former === undefined) rmSync(target, { force: true });
      else renameSync(former, target);
    },
  };
}

function replace(source: string, target: string): void {
  const draft = `${target}.${String(process.pid)}`;
  copyFileSync(source, draft);
  chmodSync(draft, EXECUTABLE_MODE);
  const file = openSync(draft, 'r');
  fsyncSync(file);
  closeSync(file);
  renameSync(draft, target);
}
