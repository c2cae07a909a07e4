import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmodSync, chownSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {
  SocketWardenLink,
  type SocketLinkOptions,
  type WardenListener,
} from '../agent/warden-link.ts';
import { readWardenRecord, type WardenRecord } from '../records.ts';
import type {
  BackendSnapshot,
  ClaimStart,
  CommandStart,
  WarmEnd,
  WarmStart,
} from '../warden/protocol.ts';
import type { TestedDrone } from './tested-drone.ts';
import { until } from './wait.ts';

/** A user without privileges, for tests that run as root. */
export const ORDINARY_USER = { uid: 65_534, gid: 65_534 };

const REPLY_MS = 10_000;
/** That of the ladder `fast`. */
export const LEASH_MS = 250;

/** A listener that records what it receives. */
export interface Ear extends WardenListener {
  readonly changes: BackendSnapshot[];
  readonly cooledOnes: WarmEnd[];
  isSuperseded: boolean;
  isLost: boolean;
}

export function createEar(): Ear {
  const ear: Ear = {
    changes: [],
    cooledOnes: [],
    isSuperseded: false,
    isLost: false,
    changed: (backend) => ear.changes.push(backend),
    cooled: (end) => ear.cooledOnes.push(end),
    superseded: () => {
      ear.isSuperseded = true;
    },
    lost: () => {
      ear.isLost = true;
    },
  };
  return ear;
}

/** For a link that waits as long as a test may take. */
export function linkOptions(listener: WardenListener): SocketLinkOptions {
  return { listener, replyTimeoutMs: () => REPLY_MS, nowMs: () => os.uptime() * 1_000 };
}

/** Connects to a warden and takes command of it. */
export async function commandOf(
  record: Pick<WardenRecord, 'socketPath' | 'secret'>,
  ear: Ear = createEar(),
): Promise<SocketWardenLink> {
  const link = await SocketWardenLink.connect(record, linkOptions(ear));
  await link.takeCommand();
  return link;
}

/** A real warden process with a state folder of its own. */
export interface WardenFixture extends AsyncDisposable {
  readonly stateDir: string;
  readonly process: ChildProcess;
  readonly pid: number;
  /** What it has said of problems. */
  said(): string;
  connect(): Promise<{ link: SocketWardenLink; ear: Ear }>;
}

export async function startWarden(
  { words }: Pick<TestedDrone, 'words'>,
  options: { isOrdinaryUser?: boolean; env?: Readonly<Record<string, string>> } = {},
): Promise<WardenFixture> {
  const stateDir = mkdtempSync(path.join(os.tmpdir(), 'lh-warden-'));
  const isOther = options.isOrdinaryUser === true && process.getuid?.() === 0;
  if (isOther) {
    chmodSync(stateDir, 0o700);
    chownSync(stateDir, ORDINARY_USER.uid, ORDINARY_USER.gid);
  }
  const [file, ...args] = [...words, 'warden', stateDir, ''];
  const child = spawn(file, args, {
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    cwd: '/',
    env: { ...process.env, ...options.env },
    ...(isOther ? ORDINARY_USER : {}),
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
    process.stderr.write(text);
  });
  await until('the warden listens', () => readWardenRecord(stateDir) !== undefined);
  return {
    stateDir,
    process: child,
    pid: child.pid ?? 0,
    said: () => said,
    connect: async () => {
      const ear = createEar();
      const record = readWardenRecord(stateDir);
      if (record === undefined) throw new Error('there is no warden');
      return { link: await commandOf(record, ear), ear };
    },
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL');
      await until('the warden ended', () => child.exitCode !== null || child.signalCode !== null);
      rmSync(stateDir, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** A start of a shell script, with deadlines from now: by default soft is 1 h ahead. */
export function startOf(
  script: string,
  fields: Partial<CommandStart> & { softInMs?: number; hardInMs?: number } = {},
): CommandStart {
  const { softInMs = 3_600_000, hardInMs = softInMs + 600_000, ...rest } = fields;
  const nowMs = os.uptime() * 1_000;
  return {
    backendId: `b-${randomUUID()}`,
    leaseId: 'lease-one',
    softAtMs: nowMs + softInMs,
    hardAtMs: nowMs + hardInMs,
    hardAfterMs: 5_000_000,
    softToHardMs: hardInMs - softInMs,
    leashMs: LEASH_MS,
    program: 'test',
    user: null,
    places: { hidden: [], blocked: [], reads: [], fixed: [] },
    command: '/bin/sh',
    args: ['-c', script],
    env: { PATH: '/usr/bin:/bin' },
    cwd: '/',
    stopSignal: 'SIGTERM',
    stopGraceMs: 10_000,
    meta: null,
    ...rest,
  };
}

/** The start of a warm process that runs a shell script. */
export function warmOf(script: string, fields: Partial<WarmStart> = {}): WarmStart {
  const { program, user, places, command, args, env, cwd, stopSignal } = startOf(script);
  const start = { program, user, places, command, args, env, cwd, stopSignal };
  return { ...start, warmId: randomUUID(), ...fields };
}

/** A claim of a warm process, with deadlines from now: by default soft is 1 h ahead. */
export function claimStartOf(
  warmId: string,
  of: Parameters<typeof startOf>[1] = {},
  variables: Readonly<Record<string, string>> = { LEASEHOLD_KEY: 'demo' },
): ClaimStart {
  const { backendId, leaseId, softAtMs, hardAtMs, ...rest } = startOf('', of);
  const { hardAfterMs, softToHardMs, leashMs, program, stopSignal, stopGraceMs, meta } = rest;
  return {
    backendId,
    leaseId,
    softAtMs,
    hardAtMs,
    hardAfterMs,
    softToHardMs,
    leashMs,
    program,
    stopSignal,
    stopGraceMs,
    meta,
    claim: { warmId, variables },
  };
}
