/** An etcd for the tests of several datacenters: the machine's, or else, on a Debian as root, the distribution's. */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import path from 'node:path';
import { run } from '../workspace.mjs';

const HELP = `No etcd was found, and none could be installed. Tests that need one will fail: install one, such
as Debian's package "etcd-server", so that it is in PATH.`;

/** Makes sure that there is an etcd; prints what to do about it when that fails. */
export async function ensureEtcd() {
  if ((await findEtcd()) !== undefined) return;
  await installPackage();
  if ((await findEtcd()) === undefined) console.error(HELP);
}

async function findEtcd() {
  for (const folder of [...(process.env.PATH ?? '').split(path.delimiter), '/usr/sbin']) {
    const file = path.join(folder, 'etcd');
    if (folder !== '' && (await isExecutable(file))) return file;
  }
  return undefined;
}

async function installPackage() {
  const isDebian = await isExecutable('/usr/bin/apt-get');
  if (process.getuid?.() !== 0 || !isDebian) return;
  console.log('Installing etcd, for the tests of several datacenters (apt-get) …');
  // The package would start a service of its own; the tests' etcds are theirs alone.
  const env = { DEBIAN_FRONTEND: 'noninteractive', SYSTEMD_OFFLINE: '1', RUNLEVEL: '1' };
  // An old list of packages may do as well: only whether there is an etcd then counts.
  await run('/usr/bin/apt-get', ['update', '-qq'], { env, quiet: true });
  const install = ['install', '-y', '-qq', '--no-install-recommends', 'etcd-server'];
  await run('/usr/bin/apt-get', install, { env, quiet: true });
}

async function isExecutable(file) {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
