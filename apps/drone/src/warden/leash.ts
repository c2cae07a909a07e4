/**
 * The leash: a process beside the warden that ends the warden, and with it every backend, when a
 * hard deadline has passed and the warden did not act on it. It needs neither the agent nor the
 * warden to run, so it holds when both are stopped.
 *
 * The warden writes the moment by which it will have acted into a file that has no name, before a
 * program runs and whenever that moment changes. The leash sleeps until then and reads the file
 * again: a moment that has moved later does not wake the leash. Only one earlier than the
 * one it sleeps to wakes it, by a signal that the kernel delivers whether or not the warden still runs.
 *
 * It sleeps on a clock that stands still in suspend. The warden's own tick covers waking up; a
 * warden that is stopped while its machine is suspended too is ended later by that time.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { Readable } from 'node:stream';

/** A leash that ended is replaced after this; it ends when it is killed, or when it cannot run. */
const RESTART_MS = 200;
/** How many digits the moment has in the file: it is always overwritten as a whole. */
const MOMENT_DIGITS = 16;
const MOMENT_FD = 3;

/**
 * Arguments: the process id of the warden, then the command line that goes before `sleep`. Times are
 * hundredths of a second since boot, as `/proc/uptime` has them. A nap lasts a minute at most.
 *
 * A signal that comes before its `sleep` is known is noted in `woken`; one that comes later ends the
 * `sleep`. One that came before `ready` would end the leash: none is sent until then. The parent is asked before it is killed, so the number cannot be another process's.
 */
const LEASH_SCRIPT = `
warden=$1; shift
nap=; woken=
trap 'woken=1; [ -z "$nap" ] || kill "$nap"' USR1
echo ready
while :; do
  nap=; woken=
  read -r due < /proc/self/fd/${String(MOMENT_FD)} || due=
  read -r now _ < /proc/uptime
  read -r stat < "/proc/$$/stat"
  stat=\${stat##*) }; stat=\${stat#? }; parent=\${stat%% *}
  [ "$parent" = "$warden" ] || exit 0
  now=\${now%.*}\${now#*.}
  while [ "\${due#0}" != "$due" ]; do due=\${due#0}; done
  left=$(( \${due:-$((now + 6000))} - now ))
  if [ "$left" -le 0 ]; then kill -s KILL "$warden"; exit 0; fi
  [ "$left" -le 6000 ] || left=6000
  seconds=$((left / 100)); rest=$((left % 100)); [ "$rest" -gt 9 ] || rest=0$rest
  "$@" sleep "$seconds.$rest" &
  nap=$!
  [ -z "$woken" ] || kill "$nap"
  wait "$nap"
done
`;

interface LeashOptions {
  /** A folder that only the drone's own user may enter. */
  readonly folder: string;
  readonly shell: string;
  /** The prefix that makes a process end with its parent; empty if the machine has none. */
  readonly endWithParent: readonly string[];
  /** Called when the leash ended or could not be started; another one is on its way. */
  readonly onProblem: (problem: string) => void;
}

/** See the protocol at the top of this file. */
export class Leash {
  readonly #options: LeashOptions;
  readonly #file: number;
  #child: ChildProcess | undefined;
  #heldMs: number | undefined;
  /** Whether the process takes the signal: before it does, the signal would end it. */
  #isReady = false;
  /** Whether the moment moved earlier before that. */
  #isWakeDue = false;
  #readiness: Promise<void> = Promise.resolve();
  #restart: NodeJS.Timeout | undefined;
  #isClosed = false;

  private constructor(options: LeashOptions) {
    this.#options = options;
    const file = path.join(options.folder, `leash.${String(process.pid)}`);
    this.#file = openSync(file, 'w+', 0o600);
    rmSync(file);
  }

  /** Resolves when the leash is in place, or could not be started. */
  static async start(options: LeashOptions): Promise<Leash> {
    const leash = new Leash(options);
    leash.#write(undefined);
    leash.#run();
    await leash.ready();
    return leash;
  }

  /** Resolves when the leash can be woken, or could not be started. */
  ready(): Promise<void> {
    return this.#readiness;
  }

  /** When the warden must have acted next; undefined while there is nothing to act on. */
  hold(atMs: number | undefined): void {
    if (atMs === this.#heldMs) return;
    const isEarlier = atMs !== undefined && atMs < (this.#heldMs ?? Number.POSITIVE_INFINITY);
    this.#heldMs = atMs;
    this.#write(atMs);
    if (isEarlier) this.#wake();
  }

  #wake(): void {
    this.#isWakeDue = !this.#isReady;
    if (this.#isReady) this.#child?.kill('SIGUSR1');
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#restart);
    this.#child?.kill('SIGKILL');
    closeSync(this.#file);
  }

  #write(atMs: number | undefined): void {
    const due = atMs === undefined ? '' : Math.ceil(atMs / 10);
    const line = `${String(due).padStart(MOMENT_DIGITS, '0')}\n`;
    // A moment that is cut short is another moment.
    if (writeSync(this.#file, line, 0) < line.length) throw new Error('the disk is full');
  }

  #run(): void {
    const { shell, endWithParent, onProblem } = this.#options;
    const words = [...endWithParent, shell, '-c', LEASH_SCRIPT, 'leasehold-leash'];
    const [file = shell, ...args] = [...words, String(process.pid), ...endWithParent];
    const child = spawn(file, args, {
      cwd: '/',
      env: { PATH: '/usr/bin:/bin' },
      // A session of its own: what stops the warden's group does not stop it.
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore', this.#file],
    });
    this.#child = child;
    this.#isReady = false;
    this.#readiness = new Promise<void>((resolve) => {
      const ended = (how: string): void => {
        if (this.#child !== child) return;
        this.#child = undefined;
        this.#isReady = false;
        resolve();
        if (this.#isClosed) return;
        onProblem(`the leash ended (${how})`);
        this.#restart = setTimeout(() => this.#run(), RESTART_MS);
      };
      child.once('error', (error) => ended(error.message));
      child.once('exit', (code, signal) => ended(signal ?? String(code)));
      (child.stdout as Readable).once('data', () => {
        if (this.#child !== child) return;
        this.#isReady = true;
        if (this.#isWakeDue) this.#wake();
        resolve();
      });
    });
  }
}
