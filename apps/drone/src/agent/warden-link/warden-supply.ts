import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { readWardenRecord, type WardenRecord } from '../../warden/link/socket-path.ts';
import { SocketWardenLink, WardenSilent, type SocketLinkOptions } from './socket-warden-link.ts';
import { WardenLost, type SupplyNeeds, type WardenLink, type WardenSource } from './warden-link.ts';

/** How long a new warden may take until it answers: it first probes what the machine allows. */
const START_MS_MAX = 15_000;
/** How long the kernel may take to end a killed warden. */
const END_MS_MAX = 15_000;
const POLL_MS = 20;

export interface WardenSupplyOptions {
  readonly stateDir: string;
  /**
   * The program and the arguments that become a warden; the state folder and a PATH are added. Undefined for an
   * agent that may start none.
   */
  readonly command: readonly string[] | undefined;
  readonly searchPath: string;
  readonly nowMs: () => number;
}

/** The warden of a state folder: the one that runs there, or a new one. */
export function wardenSource(options: WardenSupplyOptions): WardenSource {
  return {
    supply: async (listener, needs) => {
      const { replyTimeoutMs } = needs;
      const link = { listener, replyTimeoutMs, nowMs: options.nowMs };
      mkdirSync(options.stateDir, { recursive: true, mode: 0o700 });
      return (await findLiving(options, link, needs)) ?? (await startNew(options, link));
    },
    end: (pid) => endWarden(options.stateDir, pid),
  };
}

/** The one that answers; undefined when none runs. One that does not answer is ended if it may be. */
async function findLiving(
  { stateDir }: WardenSupplyOptions,
  link: SocketLinkOptions,
  needs: SupplyNeeds,
): Promise<WardenLink | undefined> {
  for (;;) {
    const record = readWardenRecord(stateDir);
    if (record === undefined) return undefined;
    if (record.secret === '') {
      refuseEarlier(stateDir, record);
      return undefined;
    }
    try {
      return await SocketWardenLink.connect(record, link);
    } catch (error) {
      if (!(error instanceof WardenLost)) throw error;
      if (!(error instanceof WardenSilent)) return undefined;
      if (await needs.mayEndSilent(record.clockId)) await endSilent(stateDir, record);
      else await pause(POLL_MS);
    }
  }
}

/** Its backends cannot be adopted, and must not be lost silently. */
function refuseEarlier(stateDir: string, { pid }: WardenRecord): void {
  if (!isWardenOf(stateDir, pid)) return;
  throw new Error(
    `the warden that runs (process ${String(pid)}) is of an earlier version: drain the drone, end its agent with SIGTERM, and start it again`,
  );
}

/** @throws {WardenLost} when none answers in time. */
async function startNew(
  options: WardenSupplyOptions,
  link: SocketLinkOptions,
): Promise<WardenLink> {
  const { stateDir, searchPath, command } = options;
  if (command === undefined) throw new WardenLost(`no warden runs in ${stateDir}`);
  const former = readWardenRecord(options.stateDir)?.clockId;
  startWarden({ stateDir, searchPath, command });
  const endsAtMs = performance.now() + START_MS_MAX;
  while (performance.now() < endsAtMs) {
    await pause(POLL_MS);
    const record = readWardenRecord(options.stateDir);
    if (record === undefined || record.clockId === former) continue;
    return SocketWardenLink.connect(record, link);
  }
  throw new WardenLost(`no warden came up; see ${path.join(options.stateDir, 'warden.log')}`);
}

/** Its backends die with it. Returns when it is gone, so that the next one finds its place free. */
async function endSilent(stateDir: string, { pid }: WardenRecord): Promise<void> {
  endWarden(stateDir, pid);
  const endsAtMs = performance.now() + END_MS_MAX;
  while (isWardenOf(stateDir, pid) && performance.now() < endsAtMs) await pause(POLL_MS);
}

/** The number comes from a file or from long ago: the process must be the warden of this folder. */
function endWarden(stateDir: string, pid: number): void {
  if (isWardenOf(stateDir, pid)) process.kill(pid, 'SIGKILL');
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
function startWarden(of: {
  readonly stateDir: string;
  readonly command: readonly string[];
  readonly searchPath: string;
}): void {
  const { stateDir, command, searchPath } = of;
  const [file = '', ...args] = command;
  const log = openSync(path.join(stateDir, 'warden.log'), 'w', 0o600);
  const child = spawn(file, [...args, stateDir, searchPath], {
    detached: true,
    cwd: '/',
    stdio: ['ignore', log, log],
    // The agent's token is not for the warden, nor for what it starts.
    env: { PATH: searchPath },
  });
  child.on('error', () => {
    // The caller notices that none came up.
  });
  child.unref();
  closeSync(log);
}
