import { readFileSync } from 'node:fs';
import path from 'node:path';
import { logFolderOf } from '../warden/launch/output-log.ts';

/** What a backend of the drone with this state folder has printed so far; empty before it is there. */
export function outputOf(stateDir: string, backendId: string): string {
  try {
    return readFileSync(path.join(logFolderOf(stateDir), `${backendId}.stdout.log`), 'utf8');
  } catch {
    return '';
  }
}
