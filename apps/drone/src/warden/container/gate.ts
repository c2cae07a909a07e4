/**
 * The gate of a container: an empty folder that is mounted into it. An engine cannot start a container
 * whose mount is missing. So once the gate is removed, a start that the engine carries out late fails,
 * however long it hung.
 */
import { mkdirSync, rmdirSync } from 'node:fs';
import path from 'node:path';

/** Where a container sees its gate. */
export const GATE_PLACE = '/run/leasehold';

const FOLDER = 'gates';

export function gateFolderOf(stateDir: string): string {
  return path.join(path.resolve(stateDir), FOLDER);
}

export function gateOf(stateDir: string, backendId: string): string {
  return path.join(gateFolderOf(stateDir), backendId);
}

export function openGate(stateDir: string, backendId: string): void {
  mkdirSync(gateOf(stateDir, backendId), { recursive: true, mode: 0o755 });
}

/** May be called again. */
export function closeGate(stateDir: string, backendId: string): void {
  try {
    rmdirSync(gateOf(stateDir, backendId));
  } catch {
    // Closed already.
  }
}
