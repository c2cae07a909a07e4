import { readFileSync } from 'node:fs';
import { logFilesIn, logFolderOf } from '../warden/output-log.ts';

/** What a backend of the drone with this state folder has printed so far; empty before it is there. */
export function outputOf(
  stateDir: string,
  backendId: string,
  stream: 'stdout' | 'stderr' = 'stdout',
): string {
  try {
    const files = logFilesIn(logFolderOf(stateDir)).filter(
      (found) => found.backendId === backendId,
    );
    const lines = files.flatMap(({ file }) => readFileSync(file, 'utf8').split(/(?<=\n)/u));
    const said = lines.map((line) => /^\S+ (stdout|stderr) (.*\n)$/su.exec(line));
    return said.flatMap((line) => (line?.[1] === stream ? (line[2] ?? []) : [])).join('');
  } catch {
    return '';
  }
}
