import { buildSync } from 'esbuild';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const SOURCE = path.resolve(import.meta.dirname, '..');

/** An entry of the drone as one file that Node runs by itself. */
export interface DroneBundle extends Disposable {
  readonly file: string;
}

/** Bundles an entry of this app for process tests, which must run what ships. */
export function bundleEntry(entry = 'main.ts'): DroneBundle {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-bundle-'));
  // The clone may be where others may not enter; the bundle is for an ordinary user too.
  chmodSync(folder, 0o755);
  const file = path.join(folder, 'main.mjs');
  buildSync({
    entryPoints: [path.join(SOURCE, entry)],
    outfile: file,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    conditions: ['@leasehold/source'],
    packages: 'bundle',
    logLevel: 'error',
    banner: {
      js: "import { createRequire as leaseholdRequire } from 'node:module'; const require = leaseholdRequire(import.meta.url);",
    },
  });
  return {
    file,
    [Symbol.dispose]: () => {
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}
