/**
 * The guard of containers. A backend of processes dies with the warden, because the kernel ends
 * children with their parent. A container is its engine's child and would live on. So a process in a
 * session of its own waits for the end of the warden, whatever ends it, and then kills its containers.
 *
 * It reads a pipe whose other end only the warden has: one line for each container that is to be
 * started (`+ ID BACKEND`) or has ended (`- ID`). The kernel closes the pipe when the warden ends. Then
 * the guard closes every gate, and kills all that it finds in the control groups of those containers,
 * without their engine, until it has found nothing for a while: an engine that hung may start one late.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, rmdirSync } from 'node:fs';
import path from 'node:path';

/** A guard that ended is replaced after this; it ends only when it is killed. */
const RESTART_MS = 200;
/** For how many looks in a row nothing may be found, a tenth of a second apart. */
const QUIET_LOOKS = 300;

/** Argument: the folder of gates. */
const GUARD_SCRIPT = `
trap '' INT TERM HUP PIPE USR1 USR2
gates=$1; all=
echo ready
while read -r change id backend; do
  kept=
  for pair in $all; do [ "\${pair%%:*}" = "$id" ] || kept="$kept $pair"; done
  [ "$change" = + ] && kept="$kept $id:$backend"
  all=$kept
done
quiet=0
while [ -n "$all" ] && [ "$quiet" -lt ${String(QUIET_LOOKS)} ]; do
  quiet=$((quiet + 1))
  for pair in $all; do
    id=\${pair%%:*}
    rmdir "$gates/\${pair#*:}" 2>/dev/null
    for file in $(grep -ls "$id" /proc/[0-9]*/cgroup); do
      grep -qs "conmon-$id" "$file" && continue
      pid=\${file#/proc/}; kill -s KILL "\${pid%/cgroup}" 2>/dev/null && quiet=0
    done
  done
  sleep 0.1
done
`;

interface ContainerGuardOptions {
  readonly stateDir: string;
  readonly shell: string;
  /** Called when the guard ended or could not be started; another one is on its way. */
  readonly onProblem: (problem: string) => void;
}

/** See the protocol at the top of this file. */
export class ContainerGuard {
  readonly #options: ContainerGuardOptions;
  /** The containers that must not outlive the warden, each with its backend. */
  readonly #guarded = new Map<string, string>();
  #child: ChildProcess | undefined;
  #ready: Promise<void> | undefined;
  #restart: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: ContainerGuardOptions) {
    this.#options = options;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /**
   * Resolves when the guard knows of a container, which may be started then.
   * @throws {Error} when there is no guard.
   */
  async watch(containerId: string, backendId: string): Promise<void> {
    this.#ready ??= this.#run();
    await this.#ready;
    this.#guarded.set(containerId, backendId);
    await this.#tell(`+ ${containerId} ${backendId}\n`);
  }

  /** A container has ended, and will not be started again. */
  forget(containerId: string): void {
    if (!this.#guarded.delete(containerId)) return;
    // Without a guard, the next one is not told of it in the first place.
    this.#tell(`- ${containerId}\n`).catch(() => undefined);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#restart);
    this.#child?.stdin?.end();
  }

  #tell(line: string): Promise<void> {
    const pipe = this.#child?.stdin;
    return new Promise((resolve, reject) => {
      if (pipe === null || pipe === undefined) {
        reject(new Error('the guard of containers does not run'));
        return;
      }
      pipe.write(line, (error) =>
        error === null || error === undefined ? resolve() : reject(error),
      );
    });
  }

  /** A machine that is short of memory or descriptors refuses a process, some of them by a throw. */
  #run(): Promise<void> {
    return new Promise((resolve, reject) => {
      let child: ChildProcess | undefined;
      const ended = (how: string): void => {
        if (this.#child !== child) return;
        this.#child = undefined;
        const problem = `the guard of containers ended (${how})`;
        reject(new Error(problem));
        if (this.#isClosed) return;
        this.#options.onProblem(problem);
        this.#restart = setTimeout(() => this.#startAgain(), RESTART_MS);
      };
      try {
        child = this.#spawn();
      } catch (error) {
        ended(String(error));
        return;
      }
      this.#child = child;
      child.once('error', (error) => ended(error.message));
      child.once('exit', (code, signal) => ended(signal ?? String(code)));
      // They do not exist where there were no descriptors for them.
      child.stdin?.on('error', () => undefined); // its exit reports that
      child.stdout?.once('data', () => resolve());
    });
  }

  #spawn(): ChildProcess {
    const { shell, stateDir } = this.#options;
    const words = ['-c', GUARD_SCRIPT, 'leasehold-guard', gateFolderOf(stateDir)];
    return spawn(shell, words, {
      cwd: '/',
      env: { PATH: '/usr/bin:/bin' },
      // A session of its own: what ends the warden's group does not end it.
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
    });
  }

  #startAgain(): void {
    this.#ready = this.#run();
    for (const [containerId, backendId] of this.#guarded) {
      this.#tell(`+ ${containerId} ${backendId}\n`).catch(() => undefined);
    }
    this.#ready.catch(() => undefined); // reported, and tried again
  }
}

/**
 * The gate of a container: an empty folder that is mounted into it. An engine cannot start a container
 * whose mount is missing. So once the gate is removed, a start that the engine carries out late fails,
 * however long it hung. This is where the container sees it.
 */
export const GATE_PLACE = '/run/leasehold';

const GATES = 'gates';

export function gateFolderOf(stateDir: string): string {
  return path.join(path.resolve(stateDir), GATES);
}

export function gateOf(stateDir: string, backendId: string): string {
  return path.join(gateFolderOf(stateDir), backendId);
}

export function openGate(stateDir: string, backendId: string): void {
  mkdirSync(gateOf(stateDir, backendId), { recursive: true, mode: 0o755 });
}

/** May be called again. */
export function closeGate(stateDir: string, backendId: string): void {
  try {
    rmdirSync(gateOf(stateDir, backendId));
  } catch {
    // Closed already.
  }
}
