/** Programs that tests need and npm does not bring: the machine's, or else the distribution's packages. */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import path from 'node:path';
import { run } from '../workspace.mjs';

/** The file of a program of this machine; undefined when it has none. */
export async function findProgram(name) {
  for (const folder of [...(process.env.PATH ?? '').split(path.delimiter), '/usr/sbin']) {
    const file = path.join(folder, name);
    if (folder !== '' && (await isExecutable(file))) return file;
  }
  return undefined;
}

/** Installs packages on a Debian as root, and does nothing elsewhere. `what` they are for is printed. */
export async function installPackages(names, what) {
  const isDebian = await isExecutable('/usr/bin/apt-get');
  if (process.getuid?.() !== 0 || !isDebian || names.length === 0) return;
  console.log(`Installing ${names.join(', ')}, for ${what} (apt-get) …`);
  // Packages would start services of their own; those of the tests are theirs alone.
  const env = { DEBIAN_FRONTEND: 'noninteractive', SYSTEMD_OFFLINE: '1', RUNLEVEL: '1' };
  // An old list of packages may do as well: only whether the programs are there then counts.
  await run('/usr/bin/apt-get', ['update', '-qq'], { env, quiet: true });
  const install = ['install', '-y', '-qq', '--no-install-recommends', '--no-upgrade', ...names];
  await run('/usr/bin/apt-get', install, { env, quiet: true });
}

export async function isExecutable(file) {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
