/** PostgreSQL refuses root: where tests run as root, it runs as the user that Debian's package makes for it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { chown, readFile } from 'node:fs/promises';

interface MachineUser {
  readonly uid: number;
  readonly gid: number;
}

const NAMES = ['postgres', 'nobody'];

/** The user to run PostgreSQL as; undefined for our own. */
async function userOfPostgres(): Promise<MachineUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'));
  const found = NAMES.map((name) => lines.find((fields) => fields[0] === name)).find(Boolean);
  if (found === undefined) throw new Error(`this machine has no user ${NAMES.join(' or ')}`);
  return { uid: Number(found[2]), gid: Number(found[3]) };
}

/** Gives a folder or a file to that user. */
export async function giveToPostgres(file: string): Promise<void> {
  const user = await userOfPostgres();
  if (user !== undefined) await chown(file, user.uid, user.gid);
}

/** A process that was started, and what it has printed so far. */
export interface Spawned {
  readonly child: ChildProcess;
  printed(): string;
}

const PRINTED_CHARS_MAX = 100_000;

/** Starts a program as that user. It gets `endsBy` when the process that runs the tests ends. */
export async function spawnAsPostgres(
  command: readonly string[],
  endsBy: 'TERM' | 'KILL',
): Promise<Spawned> {
  const user = await userOfPostgres();
  const as =
    user === undefined
      ? []
      : ['--reuid', String(user.uid), '--regid', String(user.gid), '--clear-groups'];
  const child = spawn('setpriv', ['--pdeathsig', endsBy, ...as, '--', ...command], {
    cwd: '/',
    env: { PATH: process.env['PATH'], LC_ALL: 'C.UTF-8', TZ: 'UTC' },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (piece: string) => {
      text = (text + piece).slice(-PRINTED_CHARS_MAX);
    });
  }
  child.on('error', (error) => {
    text += error.message;
  });
  return { child, printed: () => text };
}
