/** The root file system of an image, from this machine's own files: a test has no registry to ask for one. */
import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const BUSYBOX = '/bin/busybox';
const APPLETS = ['cat', 'chmod', 'chown', 'gzip', 'id', 'mkdir', 'sleep', 'tar', 'touch'];
/** What isolates the programs of a drone. */
const ISOLATION = ['echo', 'env', 'mount', 'setpriv', 'setsid', 'unshare'];

/** Makes it in `root`, with this Node and these programs, and what they load. */
export async function writeBase(root: string): Promise<void> {
  for (const name of ['dev', 'etc', 'opt', 'proc', 'root', 'run', 'sys', 'tmp', 'var/lib']) {
    await mkdir(path.join(root, name), { recursive: true });
  }
  for (const name of ['bin', 'lib', 'lib64', 'sbin']) {
    await mkdir(path.join(root, 'usr', name), { recursive: true });
    await symlink(`usr/${name}`, path.join(root, name));
  }
  await mkdir(path.join(root, 'usr/local/bin'), { recursive: true });
  await chmod(path.join(root, 'tmp'), 0o1777);
  await cp(BUSYBOX, path.join(root, 'bin/busybox'));
  for (const name of APPLETS) await symlink('busybox', path.join(root, 'bin', name));
  await writeFile(path.join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
  await writeFile(path.join(root, 'etc/hosts'), '127.0.0.1 localhost\n');
  const programs = [
    [process.execPath, '/usr/bin/node'] as const,
    // Not the shell of Busybox, which runs its own tools in place of others of the same name.
    ['/bin/sh', '/usr/bin/sh'] as const,
    ...ISOLATION.map((name) => [`/usr/bin/${name}`, `/usr/bin/${name}`] as const),
  ];
  const libraries = new Set<string>();
  for (const [from, to] of programs) {
    await cp(from, path.join(root, to), { dereference: true });
    for (const library of await librariesOf(from)) libraries.add(library);
  }
  for (const library of libraries) {
    await mkdir(path.join(root, path.dirname(library)), { recursive: true });
    await cp(library, path.join(root, library), { dereference: true });
  }
}

async function librariesOf(program: string): Promise<string[]> {
  const { stdout } = await run('ldd', [program]);
  return [...stdout.matchAll(/(?:=> |^\s+)(?<file>\/\S+) \(/gmu)].map(
    ({ groups }) => groups?.['file'] ?? '',
  );
}
