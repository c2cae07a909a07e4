/**
 * The step itself. With `run` a command runs under the lease, and the step ends with it. Without, the command that holds
 * the lease goes on beside the next steps, renews the lease, and ends when `post.mjs` ends it.
 */
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, openSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fail, input, logOf, messageOf, passSignals, saveState } from './runner.mjs';
import { commandWords } from './words.mjs';

/** How often what the command line says is shown while it waits. */
const SHOW_EVERY_MS = 500;

const TELL = `
printf 'lease-id=%s\\nfencing-token=%s\\n' "$LEASEHOLD_LEASE_ID" "$LEASEHOLD_FENCING_TOKEN" >>"$GITHUB_OUTPUT"`;
/** Tells the job what it holds, and runs the command of the step. */
const RUN = `${TELL}
exec bash -eo pipefail -c "$0"`;
/**
 * Tells the job what it holds, and holds it until `post.mjs` makes a file: a signal could meet the command line as it ends.
 * It also ends when nobody will make the file: the runner (`$1`) has died, or has cleared its folder.
 */
const HOLD = `${TELL}
printf 'LEASEHOLD_LEASE_ID=%s\\nLEASEHOLD_FENCING_TOKEN=%s\\n' "$LEASEHOLD_LEASE_ID" "$LEASEHOLD_FENCING_TOKEN" >>"$GITHUB_ENV"
echo held
while [ -d "$0" ] && [ ! -e "$0/end" ]; do
  if [ "$1" -gt 1 ] && ! kill -0 "$1" 2>/dev/null; then
    echo 'The runner has ended before the job.' >&2
    exit 1
  fi
  sleep 0.2
done`;
/** Keeps the exit code of what holds the lease for \`post.mjs\`, which is not its parent. Signals are for that alone. */
const KEEP_EXIT_CODE = `
trap '' HUP INT TERM
"$@"
echo $? >"$0/exit.new" && mv "$0/exit.new" "$0/exit"`;

const temporary = process.env['RUNNER_TEMP'] ?? os.tmpdir();

/** @returns the path of the command line. */
function install() {
  const installed = input('cli');
  if (installed !== '') return installed;
  const folder = path.join(temporary, 'leasehold');
  const flags = ['--no-save', '--no-audit', '--no-fund', '--omit=optional', '--loglevel=error'];
  execFileSync('npm', ['install', ...flags, '--prefix', folder, input('package')], {
    stdio: 'inherit',
  });
  return path.join(folder, 'node_modules', '.bin', 'leasehold');
}

/**
 * Runs the command of the step, and ends with its exit code.
 * @param {string} cli
 * @param {string[]} words
 * @param {NodeJS.ProcessEnv} environment
 */
function runCommand(cli, words, environment) {
  const child = spawn(cli, [...words, '--', 'bash', '-c', RUN, input('run')], {
    stdio: 'inherit',
    env: environment,
  });
  passSignals((signal) => child.kill(signal));
  child.once('error', (error) => fail(error.message));
  child.once('close', (code, signal) => {
    if (code !== 0)
      fail(`The command line ended with ${signal ?? `exit code ${code}`}.`, code ?? 1);
  });
}

/**
 * Starts what holds the lease, and leaves it running as soon as it does.
 * @param {string} cli
 * @param {string[]} words
 * @param {NodeJS.ProcessEnv} environment
 */
function hold(cli, words, environment) {
  const folder = mkdtempSync(path.join(temporary, 'leasehold-held-'));
  const log = openSync(path.join(folder, 'log'), 'a');
  const command = [cli, ...words, '--', 'bash', '-c', HOLD, folder, String(process.ppid)];
  const child = spawn('bash', ['-c', KEEP_EXIT_CODE, folder, ...command], {
    // A group of its own, which outlives the step.
    detached: true,
    stdio: ['ignore', 'pipe', log],
    env: environment,
  });
  child.once('error', (error) => fail(error.message));
  const group = child.pid;
  if (group === undefined) return;
  // Before it is held: a job that is cancelled while it waits leaves nothing behind.
  saveState('folder', folder);
  saveState('group', String(group));
  passSignals(() => process.kill(-group, 'SIGTERM'));
  const show = logOf(folder);
  const showing = setInterval(show, SHOW_EVERY_MS);
  child.once('close', () => {
    clearInterval(showing);
    show();
    fail('Nothing is held.');
  });
  child.stdout?.once('data', () => {
    saveState('held', 'yes');
    console.log('The lease is held, and renewed, until the end of the job.');
    process.exit(0);
  });
}

try {
  const token = input('token');
  console.log(`::add-mask::${token}`);
  const words = commandWords(input);
  // The command line keeps LEASEHOLD_TOKEN from the command of the step, but not this.
  delete process.env['INPUT_TOKEN'];
  const environment = { ...process.env, LEASEHOLD_URL: input('url'), LEASEHOLD_TOKEN: token };
  const act = input('run') === '' ? hold : runCommand;
  act(install(), words, environment);
} catch (error) {
  fail(messageOf(error));
}
