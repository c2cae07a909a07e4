/**
 * The warden: a small process of its own, in a session of its own, that is the parent of all
 * backends of a drone and ends each of them at its deadlines, whatever the agent does.
 *
 * It trusts no file: what it owns are its children, and what it knows dies with it. If
 * it is killed, the kernel kills its backends. It reads the boot clock at a tick of 50 ms, because
 * timers stand still while a machine sleeps. If it is stopped, its leash ends it in time.
 *
 * It loads as little as possible: no logger, no validation library, no transport.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  realpathSync,
  rmSync,
  writeSync,
} from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { createBootClock, type TickingClock } from '@leasehold/service-kit/boot-clock';
import { chooseSocketPath, readWardenRecord, writeWardenRecord } from '../records.ts';
import { ContainerGuard, gateFolderOf } from './container-guard.ts';
import { type ContainerContext, ContainerProcess, ContainerRemovals } from './container-process.ts';
import { probeLaunchMeans, toolFinder } from './isolation.ts';
import { BackendProcess, type LaunchContext } from './launch.ts';
import { logFolderOf } from './output-log.ts';
import { prepareFolders } from './program-files.ts';
import {
  type BackendSnapshot,
  type Command,
  decodeRequest,
  type Introduction,
  type LineChannel,
  lineChannel,
  PROTOCOL_VERSION,
  ProtocolError,
  type Reply,
  REQUEST_LINE_MAX,
  type WardenIdentity,
  type WarmEnd,
} from './protocol.ts';
import { type Launch, type LaunchWarm, StartRefused, Warden } from './warden.ts';

/** How long a warden without an agent and without a living backend stays. */
const IDLE_LIMIT_MS = 5_000;
const SECRET_BYTES = 32;
/** How long a warden that ends waits for engines to remove its last containers. */
const REMOVALS_MS_MAX = 5_000;

interface WardenOptions {
  readonly stateDir: string;
  /** A PATH in which the tools of the system are looked for first. */
  readonly searchPath: string;
  readonly clock?: TickingClock | undefined;
}

/** Resolves when the warden has ended: told to, or with nobody left to serve. */
export async function runWarden(options: WardenOptions): Promise<void> {
  const { searchPath, clock = createBootClock() } = options;
  // Mounts need real paths.
  const stateDir = realpathSync(options.stateDir);
  // Ctrl-C, and a stop of the agent's group, are the agent's business.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGPIPE', 'SIGUSR2'] as const) {
    process.on(signal, () => undefined);
  }
  chmodSync(stateDir, 0o700);
  const logFolder = logFolderOf(stateDir);
  const workshop = path.join(stateDir, 'view');
  for (const folder of [logFolder, workshop]) mkdirSync(folder, { recursive: true, mode: 0o700 });
  const means = await probeLaunchMeans({
    find: toolFinder(searchPath),
    stateDir,
    workshop,
    isRoot: process.getuid?.() === 0,
  });
  prepareFolders(stateDir, means, onProblem);
  const socketPath = chooseSocketPath(stateDir);
  const clockId = randomUUID();
  const secret = randomBytes(SECRET_BYTES).toString('base64url');

  // Of a warden that was killed: what it has not started yet must not start.
  rmSync(gateFolderOf(stateDir), { recursive: true, force: true });
  const leash = await Leash.start({
    folder: stateDir,
    shell: means.shell,
    endWithParent: means.endWithParent,
    onProblem,
  });
  let isShutdown = false;
  const server: AgentServer = new AgentServer({
    identity: { clockId, pid: process.pid, isolation: means.facts },
    secret,
    warden: () => warden,
    onShutdown: () => {
      isShutdown = true;
      warden.shutdown();
    },
  });
  const removals = new ContainerRemovals();
  const guard = new ContainerGuard({ stateDir, shell: means.shell, onProblem });
  const nowMs = (): number => clock.nowMs();
  const context: LaunchContext = {
    means,
    stateDir,
    logFolder,
    workshop,
    // The socket may be elsewhere, where its path is short enough.
    hidden: [stateDir, realpathSync(path.dirname(socketPath))],
    nowMs,
  };
  const warden: Warden = new Warden({
    ...launchers(context, { stateDir, logFolder, guard, removals, nowMs, onProblem }),
    nowMs,
    onActBy: (atMs) => leash.hold(atMs),
    onProblem,
    whenLeashed: () => leash.ready(),
    onChange: (backend) => server.tell(backend),
    onCooled: (end) => server.tellCooled(end),
  });

  // The process that starts a warden has found that none answers here: what is left is a dead one's socket.
  rmSync(socketPath, { force: true });
  await server.listen(socketPath);
  writeWardenRecord(stateDir, { socketPath, clockId, pid: process.pid, secret });
  await untilUnneeded({
    clock,
    warden,
    hasAgent: () => server.hasAgent,
    isShutdown: () => isShutdown,
    removals,
  });
  for (const part of [guard, leash, means.groups]) part.close();
  // The name may be a later warden's by now.
  if (readWardenRecord(stateDir)?.clockId === clockId) rmSync(socketPath, { force: true });
}

function onProblem(problem: string): void {
  process.stderr.write(`${problem}\n`);
}

/** Prepares a backend of either kind, and a warm process. */
function launchers(
  ofCommands: LaunchContext,
  ofContainers: ContainerContext,
): { launch: Launch; launchWarm: LaunchWarm } {
  return {
    launch: (request) =>
      'container' in request
        ? ContainerProcess.prepare(request, ofContainers)
        : BackendProcess.prepare(request, ofCommands),
    launchWarm: (request) => BackendProcess.prepareWarm(request, ofCommands),
  };
}

/** Ticks until then, also while it waits for removals: an agent that comes meanwhile finds a warden that stays. */
export function untilUnneeded(of: {
  clock: Pick<TickingClock, 'onTick'>;
  warden: Warden;
  hasAgent: () => boolean;
  isShutdown: () => boolean;
  removals: Pick<ContainerRemovals, 'isDone'>;
}): Promise<void> {
  let idleSinceMs: number | undefined;
  let unneededSinceMs: number | undefined;
  return new Promise((resolve) => {
    const stopTicking = of.clock.onTick((nowMs) => {
      of.warden.tick(nowMs);
      const { isEmpty } = of.warden;
      const isIdle = isEmpty && !of.hasAgent();
      idleSinceMs = isIdle ? (idleSinceMs ?? nowMs) : undefined;
      const isOver = isEmpty && of.isShutdown();
      const isLeft = idleSinceMs !== undefined && nowMs - idleSinceMs >= IDLE_LIMIT_MS;
      unneededSinceMs = isOver || isLeft ? (unneededSinceMs ?? nowMs) : undefined;
      if (unneededSinceMs === undefined) return;
      if (!of.removals.isDone && nowMs - unneededSinceMs < REMOVALS_MS_MAX) return;
      stopTicking();
      resolve();
    });
  });
}

interface AgentServerOptions {
  readonly identity: WardenIdentity;
  /** What an agent must present; see `WardenRecord`. */
  readonly secret: string;
  readonly warden: () => Warden;
  readonly onShutdown: () => void;
}

/**
 * Listens for agents and obeys the newest that took command. A connection that has not presented the
 * secret learns nothing and is cut off.
 */
export class AgentServer {
  readonly #options: AgentServerOptions;
  readonly #server: net.Server;
  /** Connections that have presented the secret. */
  readonly #trusted = new Set<LineChannel>();
  #agent: LineChannel | undefined;

  constructor(options: AgentServerOptions) {
    this.#options = options;
    this.#server = net.createServer((socket) => this.#serve(socket));
  }

  /** Whether an agent of this drone is connected, in command or not yet. */
  get hasAgent(): boolean {
    return this.#trusted.size > 0;
  }

  /** Resolves when agents can connect. The socket is its owner's alone from its first moment. */
  listen(socketPath: string): Promise<void> {
    const formerMask = process.umask(0o177);
    return new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(socketPath, resolve);
    }).finally(() => process.umask(formerMask));
  }

  tell(backend: BackendSnapshot): void {
    this.#agent?.send({ event: 'changed', backend });
  }

  tellCooled(end: WarmEnd): void {
    this.#agent?.send({ event: 'cooled', end });
  }

  #serve(socket: net.Socket): void {
    const channel: LineChannel = lineChannel(socket, {
      lengthMax: REQUEST_LINE_MAX,
      onLine: (line) => void this.#answer(line, channel),
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      this.#trusted.delete(channel);
      if (this.#agent !== channel) return;
      this.#agent = undefined;
      this.#options.warden().coolAll();
    });
  }

  async #answer(line: string, channel: LineChannel): Promise<void> {
    try {
      const request = decodeRequest(line);
      if ('secret' in request) this.#introduce(request, channel);
      else if (!this.#trusted.has(channel)) refuse(channel, request.id, 'hello comes first');
      else channel.send(await this.#replyTo(request, channel));
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      refuse(channel, 0, error.message);
    }
  }

  #introduce({ id, op, protocol, secret }: Introduction, channel: LineChannel): void {
    if (!isEqual(secret, this.#options.secret)) {
      refuse(channel, id, 'the secret is not that of this warden');
      return;
    }
    if (protocol !== PROTOCOL_VERSION) {
      refuse(channel, id, `this warden speaks protocol ${String(PROTOCOL_VERSION)}`);
      return;
    }
    this.#trusted.add(channel);
    if (op === 'hello' && this.#agent !== channel) {
      this.#agent?.send({ event: 'superseded' });
      this.#agent?.close();
      this.#agent = channel;
      // Before it can ask for a list: a start of the former agent that is not in it never runs. Nor does it get warm
      // processes, which may be of an earlier configuration.
      this.#options.warden().cancelLaunches();
    }
    channel.send({ id, ok: true, value: this.#options.identity });
  }

  async #replyTo(request: Command, channel: LineChannel): Promise<Reply> {
    const { id } = request;
    if (this.#agent !== channel) return { id, ok: false, problem: 'superseded' };
    try {
      return { id, ok: true, value: await this.#carryOut(request) };
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      const problem =
        error instanceof StartRefused ? error.message : `start_failed: ${error.message}`;
      return { id, ok: false, problem };
    }
  }

  async #carryOut(request: Command): Promise<unknown> {
    const warden = this.#options.warden();
    switch (request.op) {
      case 'start':
        return warden.start(request.backend);
      case 'warm':
        return warden.warm(request.warm);
      case 'cool':
        return warden.cool(request.warmId);
      case 'extend':
        return warden.extend(request.items);
      case 'stop':
        return warden.stop(request.stop);
      case 'note':
        return warden.note(request.backendId, request.meta);
      case 'alive':
        return warden.aliveIds();
      case 'list':
        return warden.list();
      case 'forget':
        return warden.forget(request.backendId);
      case 'shutdown':
        this.#options.onShutdown();
        return true;
    }
  }
}

function refuse(channel: LineChannel, id: number, problem: string): void {
  channel.send({ id, ok: false, problem });
  channel.close();
}

/** In a time that does not show how much of the secret is right. */
function isEqual(offered: string, secret: string): boolean {
  const [a, b] = [Buffer.from(offered), Buffer.from(secret)];
  return a.length === b.length && timingSafeEqual(a, b);
}

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
  /** A folder that only the drone's own user may enter: for the file, where it cannot be in memory. */
  readonly folder: string;
  readonly shell: string;
  /** The prefix that makes a process end with its parent; empty if the machine has none. */
  readonly endWithParent: readonly string[];
  /** Called when the leash ended or could not be started; another one is on its way. */
  readonly onProblem: (problem: string) => void;
}

/** Where a disk that is full or has failed keeps nothing from being written. */
const MEMORY_FOLDER = '/dev/shm';

/** Opens a file for the moment, which has no name any more. It says that there is nothing to act on. */
function openMoment(folder: string): number {
  const open = (file: string): number => {
    const opened = openSync(file, 'wx+', 0o600);
    try {
      rmSync(file);
      // It has its place from now on: what fills the memory folder later does not matter.
      writeMoment(opened, undefined);
      return opened;
    } catch (error) {
      closeSync(opened);
      throw error;
    }
  };
  const name = `leasehold-leash.${randomUUID()}`;
  try {
    return open(path.join(MEMORY_FOLDER, name));
  } catch {
    return open(path.join(folder, name));
  }
}

function writeMoment(file: number, atMs: number | undefined): void {
  const due = atMs === undefined ? '' : Math.ceil(atMs / 10);
  const line = `${String(due).padStart(MOMENT_DIGITS, '0')}\n`;
  // A moment that is cut short is another moment.
  if (writeSync(file, line, 0) < line.length) throw new Error('the disk is full');
}

/** See the protocol at the top of this file. */
class Leash {
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
    this.#file = openMoment(options.folder);
  }

  /** Resolves when the leash is in place, or could not be started. */
  static async start(options: LeashOptions): Promise<Leash> {
    const leash = new Leash(options);
    leash.#run();
    await leash.ready();
    return leash;
  }

  /** Resolves when the leash can be woken, or could not be started. */
  ready(): Promise<void> {
    return this.#readiness;
  }

  /**
   * When the warden must have acted next; undefined while there is nothing to act on.
   * @throws {Error} when it cannot be written.
   */
  hold(atMs: number | undefined): void {
    if (atMs === this.#heldMs) return;
    const isEarlier = atMs !== undefined && atMs < (this.#heldMs ?? Number.POSITIVE_INFINITY);
    // What a write that fails has left is not known: the next one is made in any case, and wakes the leash.
    this.#heldMs = Number.POSITIVE_INFINITY;
    writeMoment(this.#file, atMs);
    this.#heldMs = atMs;
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

  /** A machine that is short of memory or descriptors refuses a process, some of them by a throw. */
  #run(): void {
    const { onProblem } = this.#options;
    this.#isReady = false;
    this.#readiness = new Promise<void>((resolve) => {
      let child: ChildProcess | undefined;
      const ended = (how: string): void => {
        if (this.#child !== child) return;
        this.#child = undefined;
        this.#isReady = false;
        resolve();
        if (this.#isClosed) return;
        onProblem(`the leash ended (${how})`);
        this.#restart = setTimeout(() => this.#run(), RESTART_MS);
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
      // It does not exist where there was no descriptor for it.
      child.stdout?.once('data', () => {
        if (this.#child !== child) return;
        this.#isReady = true;
        if (this.#isWakeDue) this.#wake();
        resolve();
      });
    });
  }

  #spawn(): ChildProcess {
    const { shell, endWithParent } = this.#options;
    const words = [...endWithParent, shell, '-c', LEASH_SCRIPT, 'leasehold-leash'];
    const [file = shell, ...args] = [...words, String(process.pid), ...endWithParent];
    return spawn(file, args, {
      cwd: '/',
      env: { PATH: '/usr/bin:/bin' },
      // A session of its own: what stops the warden's group does not stop it.
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore', this.#file],
    });
  }
}
