import { chmodSync, copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const BUNDLE = path.resolve(import.meta.dirname, '../../dist/main.mjs');
/** The executable that tests run instead of a file of Node: the project `executable` names it. */
const EXECUTABLE = process.env['LEASEHOLD_TEST_DRONE'];

/** A drone as it ships, for process tests. */
export interface TestedDrone extends Disposable {
  /** The command line that runs it, before its arguments. */
  readonly words: readonly string[];
}

/** In a folder that an ordinary user may enter too. */
export function testedDrone(): TestedDrone {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-tested-'));
  chmodSync(folder, 0o755);
  return {
    words: copyDroneTo(folder),
    [Symbol.dispose]: () => {
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** Returns the command line that runs the copy, whose file is the last word. */
export function copyDroneTo(folder: string): readonly string[] {
  const file = path.join(folder, EXECUTABLE === undefined ? 'drone.mjs' : 'leasehold-drone');
  copyFileSync(EXECUTABLE ?? BUNDLE, file);
  return EXECUTABLE === undefined ? [process.execPath, file] : [file];
}
