/**
 * Programs that tests and tools need and npm does not bring: the machine's, or else, on a Debian as root, the
 * distribution's packages, all in one call of the package manager.
 */
import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { run } from '../workspace.mjs';

const APT_GET = '/usr/bin/apt-get';
/** Where Debian and its derivatives install PostgreSQL, with a folder for each version. */
const POSTGRES = '/usr/lib/postgresql';
/** Packages would start services of their own; those of the tests are theirs alone. */
const ENVIRONMENT = { DEBIAN_FRONTEND: 'noninteractive', SYSTEMD_OFFLINE: '1', RUNLEVEL: '1' };

/** How a package is found that is not found by a program of its own name. */
const FOUND_BY = {
  'etcd-server': () => hasProgram('etcd'),
  'busybox-static': () => hasProgram('busybox'),
  'golang-go': () => hasProgram('go'),
  // One that can copy itself.
  postgresql: hasBaseBackup,
  // The oldest that Leasehold supports.
  'postgresql-15': () => isExecutable(`${POSTGRES}/15/bin/postgres`),
  'containernetworking-plugins': async () =>
    (await readdir('/usr/lib/cni').catch(() => [])).includes('bridge'),
};

/** What the tests of `npm run test:all` need beside those of the gate. */
export const PACKAGES_OF_ALL = [
  'pgbouncer',
  'postgresql-15',
  'postgresql',
  'patroni',
  'haproxy',
  'podman',
  'buildah',
  'crun',
  'catatonit',
  'busybox-static',
  'docker-registry',
  'containernetworking-plugins',
  'curl',
  'python3',
  'golang-go',
  'rsync',
];

/** Makes sure that these Debian packages, or what they bring, are there; says which are not. */
export async function ensurePackages(names) {
  await installPackages(await missingOf(names));
  const missing = await missingOf(names);
  if (missing.length === 0) return;
  console.error(`Not found, and could not be installed: ${missing.join(', ')}. What needs them will fail.
Install Debian's packages of these names, or what your system has in their place.`);
}

/** Installs packages on a Debian as root, and does nothing elsewhere. */
export async function installPackages(names) {
  if (process.getuid?.() !== 0 || names.length === 0 || !(await isExecutable(APT_GET))) return;
  console.log(`Installing ${names.join(', ')} (apt-get) …`);
  const options = { env: ENVIRONMENT, ifFailed: true };
  // An old list of packages may do as well: only whether the programs are there then counts.
  await run(APT_GET, ['update', '-qq'], options);
  const known = await knownOf(names);
  const install = ['install', '-y', '-qq', '--no-install-recommends', '--no-upgrade', ...known];
  await run(APT_GET, install, options);
}

/** Those that this distribution has: it installs none if it does not know one of them. */
async function knownOf(names) {
  const { stdout } = await promisify(execFile)('apt-cache', ['pkgnames'], {
    maxBuffer: 64 * 1_024 * 1_024,
  });
  const all = new Set(stdout.split('\n'));
  return names.filter((name) => all.has(name));
}

async function missingOf(names) {
  const found = await Promise.all(
    names.map((name) => (FOUND_BY[name] ?? (() => hasProgram(name)))()),
  );
  return names.filter((_, index) => !found[index]);
}

async function hasProgram(name) {
  return (await findProgram(name)) !== undefined;
}

async function hasBaseBackup() {
  const versions = await readdir(POSTGRES).catch(() => []);
  const found = await Promise.all(
    versions.map((version) => isExecutable(path.join(POSTGRES, version, 'bin', 'pg_basebackup'))),
  );
  return found.includes(true);
}

/** The file of a program of this machine; undefined when it has none. */
export async function findProgram(name) {
  for (const folder of [...(process.env.PATH ?? '').split(path.delimiter), '/usr/sbin']) {
    const file = path.join(folder, name);
    if (folder !== '' && (await isExecutable(file))) return file;
  }
  return undefined;
}

export async function isExecutable(file) {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
