/**
 * What the tests of containers and of images need: an engine with its runtime and its network, a small first
 * process for containers, what builds images, a shell for them, and a registry.
 */
import { readdir } from 'node:fs/promises';
import { findProgram, installPackages } from './debian.mjs';

/** Debian's packages, each with a program by which it is found. */
const WANTED = [
  { name: 'podman', program: 'podman' },
  { name: 'buildah', program: 'buildah' },
  { name: 'crun', program: 'crun' },
  { name: 'catatonit', program: 'catatonit' },
  { name: 'busybox-static', program: 'busybox' },
  { name: 'docker-registry', program: 'docker-registry' },
];
const NETWORK_PACKAGE = 'containernetworking-plugins';
const NETWORK_PLUGINS = '/usr/lib/cni';

/** Makes sure that they are there; prints what to do about it when that fails. */
export async function ensureContainers() {
  await installPackages(await missingPackages(), 'the tests of containers and images');
  const missing = await missingPackages();
  if (missing.length === 0) return;
  console.error(`Tests of containers and images will fail, because these are missing and could not be installed:
${missing.join(', ')}. Install Debian's packages of these names, and run the tests as root.`);
}

async function missingPackages() {
  const found = await Promise.all(WANTED.map(({ program }) => findProgram(program)));
  const programs = WANTED.filter((_, index) => found[index] === undefined).map(({ name }) => name);
  const plugins = await readdir(NETWORK_PLUGINS).catch(() => []);
  return plugins.includes('bridge') ? programs : [...programs, NETWORK_PACKAGE];
}
