import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { readWardenRecord, type WardenRecord } from '../records.ts';
import {
  SocketWardenLink,
  WardenLost,
  WardenSilent,
  type SocketLinkOptions,
  type SupplyNeeds,
  type WardenLink,
  type WardenSource,
} from './warden-link.ts';

/** How long a new warden may take until it answers: it first probes what the machine allows. */
const START_MS_MAX = 15_000;
/** How long the kernel may take to end a killed warden. */
const END_MS_MAX = 15_000;
const POLL_MS = 20;
const LAST_WORDS_MAX = 1_000;

interface WardenSupplyOptions {
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

/** @throws {WardenLost} when it ends, or does not answer in time. */
async function startNew(
  options: WardenSupplyOptions,
  link: SocketLinkOptions,
): Promise<WardenLink> {
  const { stateDir, searchPath, command } = options;
  if (command === undefined) throw new WardenLost(`no warden runs in ${stateDir}`);
  const former = readWardenRecord(options.stateDir)?.clockId;
  const logFile = path.join(stateDir, 'warden.log');
  const warden = startWarden({ logFile, stateDir, searchPath, command });
  const endsAtMs = performance.now() + START_MS_MAX;
  while (performance.now() < endsAtMs) {
    await pause(POLL_MS);
    const record = readWardenRecord(options.stateDir);
    if (record !== undefined && record.clockId !== former) {
      return SocketWardenLink.connect(record, link);
    }
    const end = warden.end();
    if (end !== undefined) throw new WardenLost(`the warden ended (${end}): ${lastWords(logFile)}`);
  }
  throw new WardenLost(`no warden came up; see ${logFile}`);
}

/** What a warden that could not start has left in its log. */
function lastWords(logFile: string): string {
  const [, ...lines] = readFileSync(logFile, 'utf8').trim().split('\n');
  const words = lines.filter((line) => !line.startsWith('    at ')).join(' ');
  return words === '' ? 'its log is empty' : words.slice(0, LAST_WORDS_MAX);
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

/**
 * In a session of its own, so that what ends the agent's terminal or group does not reach it.
 * @throws {Error} when its log cannot be written: then neither can what it needs.
 */
function startWarden(of: {
  readonly logFile: string;
  readonly stateDir: string;
  readonly command: readonly string[];
  readonly searchPath: string;
}): { readonly end: () => string | undefined } {
  const { logFile, stateDir, command, searchPath } = of;
  const [file = '', ...args] = command;
  const log = openSync(logFile, 'w', 0o600);
  writeFileSync(log, `a warden is started, ${new Date().toISOString()}\n`);
  const child = spawn(file, [...args, stateDir, searchPath], {
    detached: true,
    cwd: '/',
    stdio: ['ignore', log, log],
    // The agent's token is not for the warden, nor for what it starts.
    env: { PATH: searchPath },
  });
  let end: string | undefined;
  child.once('error', (error) => {
    end = error.message;
  });
  child.once('exit', (code, signal) => {
    end ??= signal ?? `exit code ${String(code)}`;
  });
  child.unref();
  closeSync(log);
  return { end: () => end };
}
