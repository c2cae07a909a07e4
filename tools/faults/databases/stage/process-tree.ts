import { readdir, readFile } from 'node:fs/promises';
import { waitUntil } from '@leasehold/testing/stack';

/** A process as Linux reports it: a zombie is gone. */
interface Seen {
  readonly pid: number;
  readonly parent: number;
}

/** `kill -9` of a process and its children, all at once, and waits until they are gone. */
export async function killTree(root: number): Promise<void> {
  const children = (await seen()).filter(({ parent }) => parent === root);
  const doomed = new Set([root, ...children.map(({ pid }) => pid)]);
  for (const pid of doomed) end(pid);
  await waitUntil(async () => (await seen()).every(({ pid }) => !doomed.has(pid)), {
    what: `the end of process ${String(root)}`,
  });
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function seen(): Promise<Seen[]> {
  const pids = (await readdir('/proc')).map(Number).filter(Number.isInteger);
  const found = await Promise.all(pids.map(readOne));
  return found.filter((one) => one !== undefined);
}

async function readOne(pid: number): Promise<Seen | undefined> {
  const text = await readFile(`/proc/${String(pid)}/stat`, 'utf8').catch(() => '');
  // The name may have spaces in it, and ends with the last bracket.
  const [state, parent] = text.slice(text.lastIndexOf(')') + 2).split(' ');
  if (parent === undefined || state === 'Z') return undefined;
  return { pid, parent: Number(parent) };
}
