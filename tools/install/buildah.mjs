/** What the tests of images need: what builds images, what runs them, its runtime, and a shell for their base. */
import { findProgram, installPackages } from './debian.mjs';

/** Debian's packages, each with a program by which it is found. */
const WANTED = [
  { name: 'buildah', program: 'buildah' },
  { name: 'podman', program: 'podman' },
  { name: 'crun', program: 'crun' },
  { name: 'busybox-static', program: 'busybox' },
];

/** Makes sure that they are there; prints what to do about it when that fails. */
export async function ensureBuildah() {
  await installPackages(await missingPackages(), 'the tests of images');
  const missing = await missingPackages();
  if (missing.length === 0) return;
  console.error(`Tests of images will fail, because these are missing and could not be installed:
${missing.join(', ')}. Install Debian's packages of these names, and run the tests as root.`);
}

async function missingPackages() {
  const found = await Promise.all(WANTED.map(({ program }) => findProgram(program)));
  return WANTED.filter((_, index) => found[index] === undefined).map(({ name }) => name);
}
