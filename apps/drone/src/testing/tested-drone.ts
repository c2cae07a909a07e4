import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { copyDrone } from '@leasehold/testing';

/** A drone as it ships, for process tests. */
export interface TestedDrone extends Disposable {
  /** The command line that runs it, before its arguments. */
  readonly words: readonly string[];
}

/** In a folder that an ordinary user may enter too. */
export function testedDrone(isExecutable?: boolean): TestedDrone {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-tested-'));
  chmodSync(folder, 0o755);
  const file = copyDrone(folder, isExecutable);
  return {
    words: file.endsWith('js') ? [process.execPath, file] : [file],
    [Symbol.dispose]: () => {
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}
