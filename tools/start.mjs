/**
 * `npm start`: everything, from a fresh clone. Installs what is missing, builds, and hands over to
 * `leasehold up`, which gets the arguments and the signals and whose exit code is ours.
 */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { prepare, root } from './workspace.mjs';

/** One Ctrl-C arrives more than once: from the terminal, and from npm, which passes it on. */
const SAME_SIGNAL_MS = 1_000;

await prepare('npm start');

// A group of its own: it learns of a Ctrl-C from us, once. If we are killed, the channel shows it.
const up = spawn(
  process.execPath,
  [path.join(root, 'apps/cli/bin/leasehold.mjs'), 'up', ...process.argv.slice(2)],
  { cwd: root, stdio: ['inherit', 'inherit', 'inherit', 'ipc'], detached: true },
);

let signalledAt = -Infinity;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    if (performance.now() - signalledAt < SAME_SIGNAL_MS) return;
    signalledAt = performance.now();
    up.kill(signal === 'SIGHUP' ? 'SIGTERM' : signal);
  });
}

up.once('error', (error) => {
  console.error(`npm start: ${error.message}`);
  process.exit(1);
});
up.once('exit', (code) => process.exit(code ?? 1));
