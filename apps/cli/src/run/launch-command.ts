import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { signalSession } from '../processes.ts';
import { findCommand } from './find-command.ts';
import type { CommandEnd } from './guard-protocol.ts';
import type { CommandSession } from './guard.ts';

/** The prefix with which the kernel kills the command when the guard dies; empty if it cannot. */
export type DeathSignal = readonly string[];

const PROBE_TIMEOUT_MS = 5_000;

/** Finds out by trying whether `setpriv` can arm a parent-death signal: BusyBox's cannot. */
export async function findDeathSignal(searchPath: string): Promise<DeathSignal> {
  const setpriv = findCommand('setpriv', searchPath);
  if (setpriv.outcome !== 'found') return [];
  const command = ['--pdeathsig', 'KILL', '--'];
  const works = await new Promise<boolean>((answer) => {
    execFile(setpriv.path, [...command, 'true'], { timeout: PROBE_TIMEOUT_MS }, (error) =>
      answer(error === null),
    );
  });
  return works ? [setpriv.path, ...command] : [];
}

/**
 * Waits for a line and then becomes the command. If the guard is killed before it sends that line, the command line
 * may not know the command, and could not end what it started: then the command never runs.
 */
const GATE = ['/bin/sh', '-c', 'read -r go <&3 && exec 3<&- "$@"', 'leasehold'];

/**
 * Prepares a command as the leader of a session of its own, with the standard streams of this process.
 * @throws {Error} when the system cannot start it.
 */
export async function launchCommand(
  command: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  deathSignal: DeathSignal,
): Promise<CommandSession> {
  const [file = '', ...args] = [...deathSignal, ...GATE, ...command];
  const child = spawn(file, args, {
    env,
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
    detached: true,
  });
  const { pid } = child;
  if (pid === undefined) {
    const [problem] = (await once(child, 'error')) as [Error];
    throw problem;
  }
  const gate = child.stdio[3] as Writable;
  // A command that was killed meanwhile has closed its end.
  gate.on('error', () => undefined);
  return {
    pid,
    begin: () => gate.end('\n'),
    signal: (signal) => {
      signalSession(pid, signal);
    },
    ended: endOf(child, pid),
  };
}

/** How long to wait until the rest of a killed session is gone: the kernel ends it at once. */
const REST_MS_MAX = 1_000;
const REST_POLL_MS = 10;

async function endOf(child: ChildProcess, pid: number): Promise<CommandEnd> {
  const [exitCode, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  for (let waitedMs = 0; waitedMs < REST_MS_MAX; waitedMs += REST_POLL_MS) {
    if (!signalSession(pid, 'SIGKILL')) break;
    await delay(REST_POLL_MS);
  }
  return { exitCode, signal };
}
