/**
 * What warden and agent of a drone leave in its state folder, so that others find them: the warden's record
 * and the agent's. Each may have ended since.
 */
import { createHash } from 'node:crypto';
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** The kernel's bound for the path of a socket is 108 bytes with the closing NUL. */
const SOCKET_PATH_BYTES_MAX = 100;
const WARDEN_RECORD = 'warden.json';
const AGENT_RECORD = 'agent.json';

/** Where the warden of a state folder listens, which clock it is, and what its agent must know. */
export interface WardenRecord {
  readonly socketPath: string;
  readonly clockId: string;
  readonly pid: number;
  /** Random for each warden. A process that presents it on the socket is an agent of this drone. */
  readonly secret: string;
}

/** Which agent commands the warden of a state folder, in its own words. */
export interface AgentRecord {
  readonly pid: number;
  readonly version: string;
  readonly build: string | null;
}

export function writeWardenRecord(stateDir: string, record: WardenRecord): void {
  write(path.join(stateDir, WARDEN_RECORD), record);
}

/** Undefined when no warden has left one, or when it cannot be read. */
export function readWardenRecord(stateDir: string): WardenRecord | undefined {
  const { socketPath, clockId, pid, secret } = read(path.join(stateDir, WARDEN_RECORD));
  if (typeof socketPath !== 'string' || typeof clockId !== 'string') return undefined;
  if (typeof pid !== 'number' || typeof secret !== 'string') return undefined;
  return { socketPath, clockId, pid, secret };
}

export function writeAgentRecord(stateDir: string, record: AgentRecord): void {
  write(path.join(stateDir, AGENT_RECORD), record);
}

/** Writes as much as an agent's record is, and removes it. @throws what an agent in command would fail with. */
export function tryAgentRecord(stateDir: string): void {
  const file = path.join(stateDir, `${AGENT_RECORD}.try`);
  write(file, { pid: process.pid, version: '0'.repeat(64), build: null });
  rmSync(file);
}

/** Undefined when no agent has left one, or when it cannot be read. */
export function readAgentRecord(stateDir: string): AgentRecord | undefined {
  const { pid, version, build } = read(path.join(stateDir, AGENT_RECORD));
  if (typeof pid !== 'number' || typeof version !== 'string') return undefined;
  return { pid, version, build: typeof build === 'string' ? build : null };
}

/** What the drone of a state folder has elsewhere on its machine has this name, and no other drone's has. */
export function nameOfStateFolder(stateDir: string): string {
  const digest = createHash('sha256').update(path.resolve(stateDir)).digest('hex');
  return `leasehold-${digest.slice(0, 12)}`;
}

/**
 * A path for the socket: in the state folder, or in a short private folder when that is too deep. That has the same
 * name each time, unless somebody else has taken it.
 */
export function chooseSocketPath(stateDir: string): string {
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const inState = path.join(path.resolve(stateDir), 'warden.sock');
  if (Buffer.byteLength(inState) <= SOCKET_PATH_BYTES_MAX) return inState;
  const folder = path.join(os.tmpdir(), `${nameOfStateFolder(stateDir)}-warden`);
  const isOurs = isPrivate(folder);
  return path.join(isOurs ? folder : mkdtempSync(`${folder}-`), 'warden.sock');
}

/** Makes a folder for this user alone, or finds it; false when it is another's. */
function isPrivate(folder: string): boolean {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch {
    // Something is there.
  }
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (found?.isDirectory() !== true) return false;
  return found.uid === process.getuid?.() && (found.mode & 0o777) === 0o700;
}

/** Whole or not at all. */
function write(file: string, record: object): void {
  const draft = `${file}.${String(process.pid)}`;
  try {
    writeFileSync(draft, `${JSON.stringify(record)}\n`, { mode: 0o600 });
    renameSync(draft, file);
  } catch (error) {
    // Each try would leave one of its own on a disk that is full.
    rmSync(draft, { force: true });
    throw error;
  }
}

/** The fields of a record; none of one that is missing or cannot be read. */
function read(file: string): Readonly<Record<string, unknown>> {
  try {
    const record: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return typeof record === 'object' && record !== null ? { ...record } : {};
  } catch {
    return {};
  }
}
