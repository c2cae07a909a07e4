import { chmodSync, copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import packageJson from '../../package.json' with { type: 'json' };

const BUNDLE = path.resolve(import.meta.dirname, '../../dist/main.mjs');
/** What `npm run build:drone` makes for this machine. */
const EXECUTABLE = path.resolve(
  import.meta.dirname,
  `../../../../out/drone/leasehold-drone-${packageJson.version}-${process.platform}-${process.arch}`,
);
/** Every test of a drone runs on the executable in `npm run test:all`, once more. */
const isExecutable = process.env['LEASEHOLD_TEST_DRONE'] === 'executable';

/** A drone as it ships, for process tests. */
export interface TestedDrone extends Disposable {
  /** The command line that runs it, before its arguments. */
  readonly words: readonly string[];
}

/** In a folder that an ordinary user may enter too. */
export function testedDrone(copyTo = copyDroneTo): TestedDrone {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-tested-'));
  chmodSync(folder, 0o755);
  return {
    words: copyTo(folder),
    [Symbol.dispose]: () => {
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** Returns the command line that runs the copy, whose file is the last word. */
export function copyDroneTo(folder: string): readonly string[] {
  if (isExecutable) return copyExecutableTo(folder);
  const file = path.join(folder, 'drone.mjs');
  copyFileSync(BUNDLE, file);
  return [process.execPath, file];
}

/** As {@link copyDroneTo}, of the executable. */
export function copyExecutableTo(folder: string): readonly string[] {
  if (!existsSync(EXECUTABLE)) {
    throw new Error(`${EXECUTABLE} is missing: run \`npm run build:drone\` first`);
  }
  const file = path.join(folder, 'leasehold-drone');
  copyFileSync(EXECUTABLE, file);
  return [file];
}
