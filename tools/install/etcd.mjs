/** An etcd for the tests of several datacenters: the machine's, or else, on a Debian as root, the distribution's. */
import { findProgram, installPackages } from './debian.mjs';

const HELP = `No etcd was found, and none could be installed. Tests that need one will fail: install one, such
as Debian's package "etcd-server", so that it is in PATH.`;

/** Makes sure that there is an etcd; prints what to do about it when that fails. */
export async function ensureEtcd() {
  if ((await findProgram('etcd')) !== undefined) return;
  await installPackages(['etcd-server'], 'the tests of several datacenters');
  if ((await findProgram('etcd')) === undefined) console.error(HELP);
}
