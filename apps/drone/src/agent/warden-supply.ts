import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { readWardenRecord } from '../warden/socket-path.ts';
import { SocketWardenLink } from './socket-warden-link.ts';
import { WardenLost, type WardenLink, type WardenListener } from './warden-link.ts';

/** How long a new warden may take until it answers: it probes the machine first. */
const START_MS_MAX = 15_000;
const POLL_MS = 20;

export interface WardenSupplyOptions {
  readonly stateDir: string;
  /** The program and the arguments that become a warden; the state folder and a PATH are added. */
  readonly command: readonly string[];
  readonly searchPath: string;
}

/**
 * Takes command of the warden of a state folder, and starts one where none answers.
 * @throws {WardenLost} when none answers in time.
 */
export async function supplyWarden(
  options: WardenSupplyOptions,
  listener: WardenListener,
): Promise<WardenLink> {
  mkdirSync(options.stateDir, { recursive: true, mode: 0o700 });
  const living = await connectToRecorded(options.stateDir, listener);
  if (living !== undefined) return living;
  await endSilentWarden(options.stateDir);

  startWarden(options);
  const endsAtMs = performance.now() + START_MS_MAX;
  while (performance.now() < endsAtMs) {
    await pause(POLL_MS);
    const started = await connectToRecorded(options.stateDir, listener);
    if (started !== undefined) return started;
  }
  throw new WardenLost(`no warden came up; see ${path.join(options.stateDir, 'warden.log')}`);
}

async function connectToRecorded(
  stateDir: string,
  listener: WardenListener,
): Promise<WardenLink | undefined> {
  const record = readWardenRecord(stateDir);
  if (record === undefined) return undefined;
  try {
    return await SocketWardenLink.connect(record.socketPath, listener);
  } catch (error) {
    if (error instanceof WardenLost) return undefined;
    throw error;
  }
}

/**
 * A warden that runs and does not answer keeps no deadline either: it is killed, and its backends
 * die with it. The number comes from a file, so the process must be the warden of this folder.
 */
async function endSilentWarden(stateDir: string): Promise<void> {
  const pid = readWardenRecord(stateDir)?.pid;
  if (pid === undefined || !isWardenOf(stateDir, pid)) return;
  process.kill(pid, 'SIGKILL');
  const endsAtMs = performance.now() + START_MS_MAX;
  while (isWardenOf(stateDir, pid) && performance.now() < endsAtMs) await pause(POLL_MS);
}

function isWardenOf(stateDir: string, pid: number): boolean {
  try {
    const words = readFileSync(`/proc/${String(pid)}/cmdline`, 'utf8').split('\0');
    return words[words.indexOf('warden') + 1] === stateDir;
  } catch {
    return false;
  }
}

/** In a session of its own, so that what ends the agent's terminal or group does not reach it. */
function startWarden({ stateDir, command, searchPath }: WardenSupplyOptions): void {
  const [file = '', ...args] = command;
  const log = openSync(path.join(stateDir, 'warden.log'), 'w', 0o600);
  const child = spawn(file, [...args, stateDir, searchPath], {
    detached: true,
    cwd: '/',
    stdio: ['ignore', log, log],
    // The agent's token is none of its business, nor of what it starts.
    env: { PATH: searchPath },
  });
  child.on('error', () => {
    // That none came up is what the caller finds out.
  });
  child.unref();
  closeSync(log);
}
