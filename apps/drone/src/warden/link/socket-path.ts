import { mkdirSync, mkdtempSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** The kernel's bound for the path of a socket is 108 bytes with the closing NUL. */
const SOCKET_PATH_BYTES_MAX = 100;
const RECORD = 'warden.json';

/** Where the warden of a state folder listens, which clock it is, and what its agent must know. */
export interface WardenRecord {
  readonly socketPath: string;
  readonly clockId: string;
  readonly pid: number;
  /**
   * Random for each warden. A process that presents it on the socket is an agent of this drone. Empty in the
   * record of an earlier version.
   */
  readonly secret: string;
}

/** A path for the socket: in the state folder, or in a short private folder when that is too deep. */
export function chooseSocketPath(stateDir: string): string {
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const inState = path.join(path.resolve(stateDir), 'warden.sock');
  if (Buffer.byteLength(inState) <= SOCKET_PATH_BYTES_MAX) return inState;
  return path.join(mkdtempSync(path.join(os.tmpdir(), 'leasehold-')), 'warden.sock');
}

/** Written whole or not at all. */
export function writeWardenRecord(stateDir: string, record: WardenRecord): void {
  const file = path.join(stateDir, RECORD);
  const draft = `${file}.${String(process.pid)}`;
  writeFileSync(draft, `${JSON.stringify(record)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}

/** Undefined when no warden has left one, or when it cannot be read. */
export function readWardenRecord(stateDir: string): WardenRecord | undefined {
  try {
    const record = JSON.parse(
      readFileSync(path.join(stateDir, RECORD), 'utf8'),
    ) as Partial<WardenRecord>;
    const { socketPath, clockId, pid, secret = '' } = record;
    if (typeof socketPath !== 'string' || typeof clockId !== 'string') return undefined;
    if (typeof pid !== 'number' || typeof secret !== 'string') return undefined;
    return { socketPath, clockId, pid, secret };
  } catch {
    return undefined;
  }
}
