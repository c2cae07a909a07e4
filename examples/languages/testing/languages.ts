import { accessSync, constants } from 'node:fs';
import path from 'node:path';

/** An example, and the programs that run it. */
export interface Language {
  readonly name: string;
  readonly needs: readonly string[];
  /** Where it is, and how it is run there. */
  readonly cwd: string;
  readonly command: readonly string[];
}

const FOLDER = path.join(import.meta.dirname, '..');

const LANGUAGES: readonly Language[] = [
  {
    name: 'curl',
    needs: ['bash', 'curl'],
    cwd: path.join(FOLDER, 'curl'),
    command: ['bash', 'lease.sh'],
  },
  {
    name: 'Python',
    needs: ['python3'],
    cwd: path.join(FOLDER, 'python'),
    command: ['python3', 'lease.py'],
  },
  { name: 'Go', needs: ['go'], cwd: path.join(FOLDER, 'go'), command: ['go', 'run', '.'] },
];

/** The languages whose programs this machine has, and the others. */
export function languagesHere(): {
  readonly present: readonly Language[];
  readonly missing: readonly Language[];
} {
  const isPresent = ({ needs }: Language): boolean => needs.every(isInPath);
  return {
    present: LANGUAGES.filter(isPresent),
    missing: LANGUAGES.filter((language) => !isPresent(language)),
  };
}

function isInPath(program: string): boolean {
  const folders = (process.env['PATH'] ?? '').split(path.delimiter).filter((one) => one !== '');
  return folders.some((folder) => {
    try {
      accessSync(path.join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
