/**
 * `npm start`: everything, from a fresh clone. Installs what is missing, builds, and hands over to
 * `leasehold up`, to which the arguments and the signals go and whose exit code is ours.
 */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { generate, install, root, runNx } from './workspace.mjs';

/** One Ctrl-C arrives more than once: from the terminal, and from npm, which passes it on. */
const SAME_SIGNAL_MS = 1_000;

const STEPS = [
  { name: 'install', work: () => install('install') },
  { name: 'generate', work: generate },
  {
    name: 'build',
    work: () => {
      console.log('Building …');
      return runNx(['run-many', '-t', 'build', '--outputStyle=static'], { quiet: true });
    },
  },
];

for (const { name, work } of STEPS) {
  const code = await work();
  if (code === 0) continue;
  console.error(`npm start: the step "${name}" failed.`);
  if (name === 'build') await runNx(['run-many', '-t', 'build', '--outputStyle=static']);
  process.exit(code);
}

// A group of its own: it learns of a Ctrl-C from us, once. Should we be killed, the channel tells it.
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
