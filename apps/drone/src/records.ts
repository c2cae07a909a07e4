/**
 * What warden and agent of a drone leave in its state folder, so that others find them: the warden's record
 * and the agent's. Each may have ended since.
 */
import { mkdirSync, mkdtempSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
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

/** Undefined when no agent has left one, or when it cannot be read. */
export function readAgentRecord(stateDir: string): AgentRecord | undefined {
  const { pid, version, build } = read(path.join(stateDir, AGENT_RECORD));
  if (typeof pid !== 'number' || typeof version !== 'string') return undefined;
  return { pid, version, build: typeof build === 'string' ? build : null };
}

/** A path for the socket: in the state folder, or in a short private folder when that is too deep. */
export function chooseSocketPath(stateDir: string): string {
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const inState = path.join(path.resolve(stateDir), 'warden.sock');
  if (Buffer.byteLength(inState) <= SOCKET_PATH_BYTES_MAX) return inState;
  return path.join(mkdtempSync(path.join(os.tmpdir(), 'leasehold-')), 'warden.sock');
}

/** Whole or not at all. */
function write(file: string, record: object): void {
  const draft = `${file}.${String(process.pid)}`;
  writeFileSync(draft, `${JSON.stringify(record)}\n`, { mode: 0o600 });
  renameSync(draft, file);
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
