import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { LaunchMeans } from './isolation.ts';
import { shellLimits, type BackendGroups } from './limits.ts';
import { OutputLog } from './output-log.ts';
import { groupCensus, namespaceCensus, type Census } from './processes.ts';
import {
  claimFileOf,
  coversOf,
  foldersOf,
  makeFolders,
  mountTableOf,
  removeTemporary,
  writeClaim,
  type ProgramFolders,
} from './program-files.ts';
import type { CommandStart, ProcessStart, ProgramPlaces, UserIds, WarmStart } from './protocol.ts';

/** The longest launch, however far ahead soft is: a chain takes milliseconds on an idle machine. */
const LAUNCH_MS_MAX = 60_000;
/** How long a disk may take for what a backend wrote last, before its end is reported. */
const LAST_OUTPUT_MS_MAX = 500;

/** What the launches of one warden have in common. All paths are real ones. */
export interface LaunchContext {
  readonly means: LaunchMeans;
  readonly stateDir: string;
  readonly logFolder: string;
  /** An empty folder in the state folder, where the views of backends are built. */
  readonly workshop: string;
  /** What is hidden in every backend's view, besides what its request names. */
  readonly hidden: readonly string[];
  readonly nowMs: () => number;
}

/**
 * One backend's processes, seen from their parent. Signals go to the group of a child that has not
 * been reaped, never to a number from a file: the kernel cannot have given it to a stranger.
 */
export class BackendProcess {
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #means: LaunchMeans;
  readonly #stopSignal: NodeJS.Signals;
  readonly #cleanUp: () => void;
  readonly #groups: BackendGroups | undefined;
  #census: Census;
  #isReaped = false;
  /** Whether all that init reports was read: its exit code may arrive after its end. */
  #isReported = false;
  #isReleased = false;
  /** Whether a signal reaches the program: one that comes between `go` and this may be lost. */
  #isRunning = false;
  #isStopAsked = false;
  #isGone = false;
  /** When all processes were seen to be gone first. */
  #endedAtMs: number | undefined;
  readonly #nowMs: () => number;
  readonly #log: OutputLog;
  #exitCode: number | null = null;
  #initEnd: string | null = null;
  #isKilled = false;
  #detail: string | null = null;
  readonly #user: UserIds | null;
  /** Where a warm process finds its claim. */
  readonly #claimFolder: string | null;
  #hasFailed = false;

  private constructor(
    child: ChildProcess,
    of: {
      pid: number;
      user: UserIds | null;
      claimFolder: string | null;
      means: LaunchMeans;
      stopSignal: string;
      groups: BackendGroups | undefined;
      cleanUp: () => void;
      log: OutputLog;
      nowMs: () => number;
    },
  ) {
    this.#child = child;
    this.pid = of.pid;
    this.#means = of.means;
    this.#stopSignal = of.stopSignal as NodeJS.Signals;
    this.#cleanUp = of.cleanUp;
    this.#groups = of.groups;
    this.#log = of.log;
    this.#nowMs = of.nowMs;
    this.#user = of.user;
    this.#claimFolder = of.claimFolder;
    this.#census = groupCensus(of.pid);
    child.once('exit', (code, signal) => {
      this.#isReaped = true;
      this.#initEnd =
        signal === null
          ? `ended with ${String(code)} before it told how the program ended`
          : `was killed by ${signal}, and not by Leasehold`;
      // Nobody asks any more whether a program that never ran is gone.
      if (!this.#isReleased) this.#letGo();
    });
  }

  /**
   * Starts the chain up to the point where only `go` is missing. The program has not run when this
   * returns; it never does unless {@link release} is called.
   * @throws {Error} when the chain does not come up before the soft deadline of the request.
   */
  static prepare(request: CommandStart, context: LaunchContext): Promise<BackendProcess> {
    const { backendId, softAtMs } = request;
    const timeoutMs = Math.min(softAtMs - context.nowMs(), LAUNCH_MS_MAX);
    return BackendProcess.#prepare(request, context, { id: backendId, isWarm: false, timeoutMs });
  }

  /**
   * As {@link prepare}, for a process that finds a claim later.
   * @throws {Error} when the chain does not come up in time.
   */
  static prepareWarm(request: WarmStart, context: LaunchContext): Promise<BackendProcess> {
    const of = { id: request.warmId, isWarm: true, timeoutMs: LAUNCH_MS_MAX };
    return BackendProcess.#prepare(request, context, of);
  }

  static async #prepare(
    request: ProcessStart,
    context: LaunchContext,
    { id, isWarm, timeoutMs }: { id: string; isWarm: boolean; timeoutMs: number },
  ): Promise<BackendProcess> {
    const { means, logFolder, stateDir, nowMs } = context;
    const { user, limits, stopSignal, program } = request;
    const folders = foldersOf(stateDir, means, { program, id, user, isWarm });
    const { claim: claimFolder } = folders;
    let groups: BackendGroups | undefined;
    const cleanUp = (): void => {
      groups?.remove();
      removeTemporary(folders.temporary, user, means);
      if (claimFolder !== null) removeTemporary(claimFolder, user, means);
    };
    let backend: BackendProcess;
    // Folders of somebody else are refused here, and not removed.
    makeFolders(folders, user);
    try {
      groups = limits && means.groups.make(id, limits);
      const child = startChain(request, context, { id, folders, groups });
      const pid = await spawnedPid(child);
      const log = new OutputLog(logFolder, id);
      collectOutput(child, log);
      const of = { pid, user, claimFolder, means, stopSignal, groups, cleanUp, log, nowMs };
      backend = new BackendProcess(child, of);
    } catch (cause) {
      cleanUp();
      throw cause;
    }
    try {
      await backend.#ready(timeoutMs);
    } catch (cause) {
      backend.kill();
      throw cause;
    }
    return backend;
  }

  /** Lets the program run. */
  release(): void {
    this.#isReleased = true;
    (this.#child.stdio[4] as Writable).end('go\n');
  }

  /** Where a warm process looks for its claim; empty for one that never was warm. */
  get claimFile(): string {
    return this.#claimFolder === null ? '' : claimFileOf(this.#claimFolder);
  }

  /** Makes a warm process a backend. One that cannot be told so is killed, and reported as failed. */
  claim(backendId: string, variables: Readonly<Record<string, string>>): void {
    this.#log.giveTo(backendId);
    try {
      if (this.#claimFolder === null) throw new Error('it was not started warm');
      writeClaim(this.#claimFolder, this.#user, variables);
    } catch (error) {
      this.#hasFailed = true;
      const cause = error instanceof Error ? error.message : String(error);
      this.#detail = `the claim of a warm process could not be written: ${cause}`;
      this.kill();
    }
  }

  /** Whether it could not be told of its claim. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** Asks the program to stop, as soon as it runs. */
  signalStop(): void {
    this.#isStopAsked = true;
    if (this.#isReleased && !this.#isRunning) return;
    this.#signal(this.#means.groupStopSignal ?? this.#stopSignal);
  }

  /** Ends every process of the backend without asking. May be called again. */
  kill(): void {
    this.#isKilled = true;
    (this.#child.stdio[4] as Writable | null)?.destroy();
    this.#signal('SIGKILL');
  }

  /** Whether every process of the backend has been seen to be gone, and what it wrote is in its log. */
  isGone(): boolean {
    if (this.#isGone) return true;
    if (!this.#isReaped || !this.#isReported) return false;
    if (!this.#census.isEmpty()) {
      this.#census.kill();
      return false;
    }
    this.#endedAtMs ??= this.#nowMs();
    if (!this.#log.isWritten && this.#nowMs() < this.#endedAtMs + LAST_OUTPUT_MS_MAX) return false;
    this.#isGone = true;
    if (this.#isReleased) this.#letGo();
    return true;
  }

  /** As a shell reports it; null while it is not known, and when init was killed. */
  get exitCode(): number | null {
    return this.#exitCode;
  }

  /** What else is known of its end, for an operator. */
  get detail(): string | null {
    return this.#detail;
  }

  #letGo(): void {
    this.#detail ??= this.#groups?.exceeded() ?? this.#unexpectedEnd();
    this.#census.close();
    this.#cleanUp();
  }

  /** What is known where init did not tell how the program ended, and was neither killed nor asked to stop by Leasehold. */
  #unexpectedEnd(): string | null {
    if (this.#exitCode !== null || this.#isKilled || this.#isStopAsked) return null;
    return this.#initEnd === null ? null : `its first process ${this.#initEnd}`;
  }

  #runs(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    if (this.#isStopAsked) this.signalStop();
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#isReaped) return;
    try {
      process.kill(-this.pid, signal);
    } catch (error) {
      if (!isNoSuchProcess(error)) throw error;
    }
  }

  async #ready(timeoutMs: number): Promise<void> {
    const reports = this.#child.stdio[3] as Readable;
    (this.#child.stdio[4] as Writable).on('error', () => {
      // Init ended before it was released; its exit reports that.
    });
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(
        () => reject(new Error('the launch chain did not become ready')),
        timeoutMs,
      );
      let report = '';
      reports.setEncoding('utf8');
      reports.on('data', (text: string) => {
        report += text;
        if (report.startsWith('ready\n')) resolve();
        if (report.includes('\nrunning\n')) this.#runs();
        const exit = /exit (\d+)\n/u.exec(report);
        if (exit !== null) this.#exitCode = Number(exit[1]);
      });
      reports.once('close', () => {
        this.#isReported = true;
      });
      reports.once('end', () => {
        this.#isReported = true;
        const failed = /^failed ([\s\S]*)$/u.exec(report)?.[1]?.trim();
        reject(new Error(failed ?? 'the launch chain ended before it was ready'));
      });
    }).finally(() => clearTimeout(timer));
    if (!this.#means.facts.pidNamespace) return;
    const census = namespaceCensus(this.pid);
    if (census === undefined) {
      throw new Error('the namespace of the backend cannot be determined');
    }
    this.#census = census;
  }
}

/** Starts the chain, with nothing open that is not for it. @throws {Error} when the kernel takes no such command. */
function startChain(
  request: ProcessStart,
  context: LaunchContext,
  of: { id: string; folders: ProgramFolders; groups: BackendGroups | undefined },
): ChildProcess {
  const { data, temporary, claim } = of.folders;
  const [file = context.means.shell, ...args] = launchWords(request, context, of);
  const table = context.means.mount === null ? undefined : tableFile(request, context, of);
  try {
    return spawn(file, args, {
      cwd: '/',
      env: {
        HOME: data,
        TMPDIR: temporary,
        ...request.env,
        ...(claim !== null && { LEASEHOLD_CLAIM_FILE: claimFileOf(claim) }),
      },
      // A session of its own: what ends the warden's terminal or group does not reach it.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe', table ?? 'ignore'],
    });
  } finally {
    if (table !== undefined) closeSync(table);
  }
}

/** The whole command line, from the chain to the program; see {@link initScript} for what is between. */
function launchWords(
  request: ProcessStart,
  { means, hidden }: LaunchContext,
  of: { folders: ProgramFolders; groups: BackendGroups | undefined },
): string[] {
  const { user, places, stopSignal, cwd, limits } = request;
  const { isUserNamespace } = means;
  const bounds = means.groups.bounds.bind(means.groups);
  const limiting = limits && shellLimits({ limits, user, isUserNamespace, bounds });
  // Covers are the drone's own, so that only a program of the drone's user could write into them.
  const fixed = user === null ? [...places.fixed, ...coversOf(viewOf(places, hidden))] : [];
  const isFixing = user === null && means.mount !== null;
  return [
    ...means.chain,
    means.shell,
    '-c',
    initScript(means),
    'leasehold-init',
    stopSignal.slice('SIG'.length),
    cwd ?? of.folders.data,
    means.mount ?? '',
    limiting ?? '',
    ...(isFixing ? fixed : []),
    '--',
    ...(of.groups?.joins ?? []),
    '--',
    // A program of the drone's user could give itself other limits, or stop the drone.
    ...(isFixing ? means.groups.folders : []),
    '--',
    ...means.session,
    ...means.drop(user),
    request.command,
    ...request.args,
  ];
}

/** An open file with the table of mounts, and without a name: it is deleted when nobody has it open. */
function tableFile(
  { places, limits }: ProcessStart,
  { stateDir, workshop, hidden }: LaunchContext,
  { id, folders: { data, temporary, claim } }: { id: string; folders: ProgramFolders },
): number {
  const name = path.join(stateDir, `mounts.${id}`);
  const file = openSync(name, 'w+', 0o600);
  rmSync(name);
  const sharedMemoryBytes = limits && Math.ceil(limits.memoryBytes / 2);
  const view = {
    ...viewOf(places, hidden),
    workshop,
    sharedMemoryBytes,
    writes: [data, temporary, ...(claim === null ? [] : [claim])],
  };
  try {
    // All of it or an error: a table without its end would leave folders uncovered.
    writeFileSync(file, mountTableOf(view));
  } catch (error) {
    closeSync(file);
    throw error;
  }
  return file;
}

function viewOf(places: ProgramPlaces, hidden: readonly string[]): ProgramPlaces {
  return { ...places, hidden: [...hidden, ...places.hidden] };
}

function spawnedPid(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('spawn', () => {
      if (child.pid === undefined) reject(new Error('spawned without a process id'));
      else resolve(child.pid);
    });
  });
}

function collectOutput(child: ChildProcess, log: OutputLog): void {
  child.stdout?.pipe(log.writer('stdout'));
  child.stderr?.pipe(log.writer('stderr'));
}

function isNoSuchProcess(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ESRCH';
}

/**
 * The first process of a backend: a few lines of POSIX shell between the warden and the program. It
 * runs as the warden's user; the program need not.
 *
 * It reports over file descriptor 3, is released over file descriptor 4, and reads the table of mounts
 * from file descriptor 5:
 *
 *   init ─"ready"─▶ warden ─"go"─▶ init starts the program ─"running"─▶ warden
 *   … the program ends: init ─"exit N"─▶ warden
 *
 * - Before `ready` it makes the program's view of the files and enters the program's folder. What goes
 *   wrong is reported as `failed` and a reason, and the program never starts.
 * - The parent-death signals are armed before `ready`. If the warden dies earlier, init reads the
 *   end of file instead of `go`, and the program never starts.
 * - Between `ready` and `go` the warden notes the namespace and checks once more that there is time.
 * - The program's process says `running` when it no longer has init's handlers: a signal that comes
 *   earlier would be lost. The warden keeps a stop back until then.
 * - Shells start a background job with SIGINT and SIGQUIT ignored; `env --default-signal` repairs
 *   that, where it exists, so that a program may be stopped with either.
 * - A signal that comes before the program runs ends init (nothing has started), and one that comes
 *   during `wait` interrupts it: hence the loop. Whether the program is gone by then is not asked: the
 *   shell may have reaped it already, and only `wait` has its exit code.
 * - `wait` reaps orphans of the namespace too.
 *
 * Arguments: the stop signal, the program's folder, the `mount` command (empty where there is no view
 * to make), what limits the program (lines of shell), folders to make read-only, `--`, files by which
 * init joins control groups, `--`, control groups to make read-only after that, `--`, and the command line
 * that becomes the program.
 */
function initScript({ facts }: LaunchMeans): string {
  return facts.pidNamespace ? NAMESPACE_INIT : GROUP_INIT;
}

/** Of a machine without memory: a backend is ended before the drone that watches it, and before other services. */
const OUT_OF_MEMORY_SCORE = 500;

const PREPARE = `
exec 6>&2 2>/dev/null
umask 022
fail() { echo "failed $*" >&3; exit 125; }
signal=$1; folder=$2; mount=$3; limits=$4; shift 4
`;

/** The kernel refuses a remount that drops options that the machine had set, so the usual ones are tried. */
const VIEW = `
readonly_again() {
  "$mount" -o remount,bind,ro "$1" ||
  "$mount" -o remount,bind,ro,nosuid,nodev "$1" ||
  "$mount" -o remount,bind,ro,nosuid,nodev,noexec "$1"
}
if [ -n "$mount" ]; then
  problem=$("$mount" --all --fstab /proc/self/fd/5 2>&1) ||
    fail "its view of the files could not be made: $problem"
fi
`;

const MAKE_READ_ONLY = `
while [ "$1" != -- ]; do
  "$mount" --rbind "$1" "$1" && readonly_again "$1" || fail "$1 could not be made read-only"
  shift
done
shift
`;

const JOIN = `
while [ "$1" != -- ]; do
  echo 0 >"$1" || fail "it could not join the control group $1"
  shift
done
shift
`;

const ENTER = `
cd "$folder" || fail "its folder $folder cannot be entered"
unset OLDPWD
umask 077
`;

const RUN = `
echo ready >&3
read -r go <&4 || exit 125
[ "$stopped" = 0 ] || exit 143
(
  echo ${String(OUT_OF_MEMORY_SCORE)} >/proc/self/oom_score_adj
  eval "$limits"
  echo running >&3; exec "$@" 2>&6 3>&- 4>&- 5>&- 6>&-
) &
child=$!
[ "$stopped" = 0 ] || kill -s "$signal" "$child"
while :; do
  interrupted=0
  wait "$child"; code=$?
  [ "$interrupted" = 1 ] || break
done
echo "exit $code" >&3
`;

/**
 * As PID 1 of its own namespace. A PID 1 without a handler ignores every signal, so the program is
 * not PID 1: init is, and turns SIGTERM into the stop signal of the program's own session. When
 * init ends, the kernel kills everything that is left in the namespace. A shell ends at SIGINT even as PID 1,
 * and a program of the same user may send it one: hence its trap.
 */
const NAMESPACE_INIT = `
${PREPARE}
child=; interrupted=0; stopped=0
trap 'stopped=1; interrupted=1; [ -z "$child" ] || kill -s "$signal" -- "-$child" || kill -s "$signal" "$child"' TERM
trap 'interrupted=1' INT
${VIEW}
${MAKE_READ_ONLY}
${JOIN}
${MAKE_READ_ONLY}
${ENTER}
${RUN}
exit "$code"
`;

/**
 * Without a namespace: leader of the backend's process group. The warden sends the stop signal to
 * the group; init itself only takes note of it. When the program has ended, init kills what is left
 * of its group, and so itself. There is no view of the files to make.
 */
const GROUP_INIT = `
${PREPARE}
interrupted=0; stopped=0
trap 'stopped=1; interrupted=1' "$signal"
while [ "$1" != -- ]; do shift; done
shift
${JOIN}
shift
${ENTER}
${RUN}
kill -s KILL 0
`;
