import { execFileSync } from 'node:child_process';
import path from 'node:path';

const ROOT = path.resolve(import.meta.dirname, '../../../..');

/** Makes the executable of this machine from the sources, for the tests that run it. */
export function setup(): void {
  execFileSync(process.execPath, [path.join(ROOT, 'tools/build/drone-binary.mjs')], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}
