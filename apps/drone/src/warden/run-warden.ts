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
import { randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import { chmodSync, mkdirSync, realpathSync, rmSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createBootClock, type TickingClock } from '@leasehold/service-kit/boot-clock';
import { chooseSocketPath, readWardenRecord, writeWardenRecord } from '../records.ts';
import { ContainerGuard, gateFolderOf } from './container-guard.ts';
import { type ContainerContext, ContainerProcess, ContainerRemovals } from './container-process.ts';
import { probeLaunchMeans, toolFinder } from './isolation.ts';
import { BackendProcess, type LaunchContext } from './launch.ts';
import { Leash } from './leash.ts';
import { logFolderOf } from './output-log.ts';
import { removeLeftTemporary } from './program-files.ts';
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
const POLL_MS = 20;

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
  removeLeftTemporary(stateDir, means);
  const socketPath = chooseSocketPath(stateDir);
  const clockId = randomUUID();
  const secret = randomBytes(SECRET_BYTES).toString('base64url');

  // Of a warden that was killed: what it has not started yet must not start.
  rmSync(gateFolderOf(stateDir), { recursive: true, force: true });
  const onProblem = (problem: string): void => void process.stderr.write(`${problem}\n`);
  const leash = await Leash.start({
    folder: stateDir,
    shell: means.shell,
    endWithParent: means.endWithParent,
    onProblem,
  });
  let isShutdown = false;
  const server: AgentServer = new AgentServer({
    identity: { clockId, pid: process.pid, isolation: means.facts, containers: true, warm: true },
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
  });
  await until(() => removals.isDone, REMOVALS_MS_MAX);
  for (const part of [guard, leash, means.groups]) part.close();
  // The name may be a later warden's by now.
  if (readWardenRecord(stateDir)?.clockId === clockId) rmSync(socketPath, { force: true });
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

async function until(isSo: () => boolean, limitMs: number): Promise<void> {
  const endsAtMs = performance.now() + limitMs;
  while (!isSo() && performance.now() < endsAtMs) await pause(POLL_MS);
}

function untilUnneeded(of: {
  clock: TickingClock;
  warden: Warden;
  hasAgent: () => boolean;
  isShutdown: () => boolean;
}): Promise<void> {
  let idleSinceMs: number | undefined;
  return new Promise((resolve) => {
    const stopTicking = of.clock.onTick((nowMs) => {
      of.warden.tick(nowMs);
      const { isEmpty } = of.warden;
      const isIdle = isEmpty && !of.hasAgent();
      idleSinceMs = isIdle ? (idleSinceMs ?? nowMs) : undefined;
      const isOver = isEmpty && of.isShutdown();
      if (!isOver && !(idleSinceMs !== undefined && nowMs - idleSinceMs >= IDLE_LIMIT_MS)) return;
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
