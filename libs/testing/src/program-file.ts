import { existsSync } from 'node:fs';
import path from 'node:path';

/** The path of a program of this machine. @throws when it does not exist, with the package of Debian to install. */
export function programFile(name: string, packageName: string): string {
  const folders = [...(process.env['PATH'] ?? '').split(path.delimiter), '/usr/sbin'];
  const file = folders
    .filter((folder) => folder !== '')
    .map((folder) => path.join(folder, name))
    .find((candidate) => existsSync(candidate));
  if (file !== undefined) return file;
  throw new Error(
    `There is no ${name} in PATH. Install one, such as Debian’s package "${packageName}".`,
  );
}
