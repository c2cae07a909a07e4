/**
 * `npm run datacenters`: three datacenters on this machine, to try what happens when keys move and
 * when lines break. Installs and builds what is missing first.
 *
 *   npm run datacenters                  with the console of the first one
 *   npm run datacenters -- --no-console
 *
 * Everything is new each time, and gone afterwards.
 */
import { spawn } from 'node:child_process';
import { ensurePackages } from './install/debian.mjs';
import { prepare, root } from './workspace.mjs';

await prepare('npm run datacenters');

await ensurePackages(['etcd-server']);
// It runs from its sources, as its tests do; it starts the programs as they ship.
const child = spawn(
  process.execPath,
  [
    '--conditions=@leasehold/source',
    '--import',
    'tsx',
    'tools/datacenters/main.ts',
    ...process.argv.slice(2),
  ],
  { cwd: root, stdio: 'inherit' },
);
// Ctrl-C reaches the whole group; the child cleans up, and this process waits for it.
process.on('SIGINT', () => undefined);
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill('SIGTERM'));
child.once('exit', (code) => process.exit(code ?? 1));
