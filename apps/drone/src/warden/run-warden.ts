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
import { randomBytes, randomUUID } from 'node:crypto';
import { chmodSync, mkdirSync, realpathSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createBootClock, type TickingClock } from '@leasehold/service-kit/boot-clock';
import { chooseSocketPath, readWardenRecord, writeWardenRecord } from '../records.ts';
import { AgentServer } from './agent-server.ts';
import { ContainerGuard, gateFolderOf } from './container-guard.ts';
import { ContainerProcess, ContainerRemovals, type ContainerContext } from './container-process.ts';
import { probeLaunchMeans, toolFinder } from './isolation.ts';
import { BackendProcess, type LaunchContext } from './launch.ts';
import { Leash } from './leash.ts';
import { logFolderOf } from './output-log.ts';
import { removeLeftTemporary } from './program-files.ts';
import { Warden, type Launch } from './warden.ts';

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
    ...{ stateDir, workshop },
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
    identity: {
      clockId,
      pid: process.pid,
      isolation: means.facts,
      containers: true,
    },
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
    ...{ means, stateDir, logFolder, workshop },
    // The socket may be elsewhere, where its path is short enough.
    hidden: [stateDir, realpathSync(path.dirname(socketPath))],
    nowMs,
  };
  const warden: Warden = new Warden({
    launch: launcher(context, { stateDir, logFolder, guard, removals, nowMs, onProblem }),
    nowMs,
    onActBy: (atMs) => leash.hold(atMs),
    onChange: (backend) => server.tell(backend),
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

/** Prepares a backend of either kind. */
function launcher(ofCommands: LaunchContext, ofContainers: ContainerContext): Launch {
  return (request) =>
    'container' in request
      ? ContainerProcess.prepare(request, ofContainers)
      : BackendProcess.prepare(request, ofCommands);
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
      const isEmpty = of.warden.aliveIds().length === 0;
      const isIdle = isEmpty && !of.hasAgent();
      idleSinceMs = isIdle ? (idleSinceMs ?? nowMs) : undefined;
      const isOver = isEmpty && of.isShutdown();
      if (!isOver && !(idleSinceMs !== undefined && nowMs - idleSinceMs >= IDLE_LIMIT_MS)) return;
      stopTicking();
      resolve();
    });
  });
}
