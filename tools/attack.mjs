/**
 * `npm run attack`: attacks a Leasehold that it starts, and reports the results. Installs and builds
 * what is missing first.
 *
 *   npm run attack                            all of them under both presets, in less than five minutes
 *   npm run attack -- viewer-sockets          only this one; an unknown name lists them all
 *
 * It ends with 1 when a promise was broken: a lease or a backend lost, a secret read, an answer that
 * belongs to another request, healthy callers slower than the limit, or memory that does not come back.
 */
import { spawn } from 'node:child_process';
import { prepare, root } from './workspace.mjs';

await prepare('npm run attack', ['controller', 'drone', 'console', 'gateway']);

const child = spawn(
  process.execPath,
  [
    '--conditions=@leasehold/source',
    '--import',
    'tsx',
    'tools/attack/main.ts',
    ...process.argv.slice(2),
  ],
  { cwd: root, stdio: 'inherit' },
);
// Ctrl-C reaches the whole group; the child cleans up, and this process waits for it.
process.on('SIGINT', () => undefined);
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill('SIGTERM'));
child.once('exit', (code) => process.exit(code ?? 1));
