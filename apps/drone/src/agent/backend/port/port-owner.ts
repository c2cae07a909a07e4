/**
 * Whose socket it is that answers on the port of a backend. Any process of the machine may listen
 * there: only sockets of the backend's own processes make it ready, and a stranger's is never handed out.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { membersBy, readProcesses } from '../../process-table.ts';
import { isReachedAt, listeners, listenersOfNetwork, type Listener } from './listeners.ts';

/**
 * `own`: every socket is the backend's. `nobody`: it does not exist. `stranger`: one is not the backend's.
 * `unknown`: this machine does not tell.
 */
export type PortOwner = 'own' | 'nobody' | 'stranger' | 'unknown';

export interface BackendPort {
  readonly host: string;
  readonly port: number;
  /** The first of the backend's processes that this process sees; zero while none is known. */
  readonly pid: number;
  /** The port in the network of its own that the backend has; null when it is in the machine's. */
  readonly inside: number | null;
}

/** Judges by the sockets of now. */
export function ownerOf(backend: BackendPort): PortOwner {
  return judge(backend).owner;
}

/** As {@link ownerOf}, for backends whose sockets change rarely: looks at processes only when they did. */
export class PortWatch {
  readonly #backend: () => BackendPort;
  #judged = '';
  #owner: PortOwner = 'nobody';

  constructor(backend: () => BackendPort) {
    this.#backend = backend;
  }

  look(): PortOwner {
    const backend = this.#backend();
    const seen = inodesOf(reached(backend, listeners(this.#judged === '') ?? []));
    if (seen === '') return 'nobody';
    if (seen !== this.#judged) {
      const { owner, inodes } = judge(backend);
      this.#owner = owner;
      this.#judged = inodes;
    }
    return this.#owner;
  }
}

/** By the sockets of now, which `inodes` names. */
function judge(backend: BackendPort): { owner: PortOwner; inodes: string } {
  const all = listeners(true);
  if (all === undefined) return { owner: 'unknown', inodes: '' };
  const found = reached(backend, all);
  return { owner: judged(backend, found), inodes: inodesOf(found) };
}

/** One text for the same sockets in any order; empty for none. */
function inodesOf(found: readonly Listener[]): string {
  return found
    .map(({ inode }) => inode)
    .sort()
    .join(' ');
}

function judged(backend: BackendPort, found: readonly Listener[]): PortOwner {
  const { inside, pid } = backend;
  if (inside !== null) return ofOwnNetwork({ inside, pid }, found);
  if (found.length === 0) return 'nobody';
  if (pid === 0) return 'unknown';
  const own = socketsOf(pid);
  const isOwn = ({ inode, uid }: Listener): boolean =>
    own.inodes.has(inode) || own.hiddenUids.has(uid);
  return found.every(isOwn) ? 'own' : 'stranger';
}

function reached({ host, port }: BackendPort, all: readonly Listener[]): Listener[] {
  return all.filter((one) => one.port === port && isReachedAt(one, host));
}

/** The engine passes connections on. Only itself, or root, may have a socket on the machine's side. */
function ofOwnNetwork(
  { inside, pid }: { inside: number; pid: number },
  found: readonly Listener[],
): PortOwner {
  const trusted = [0, process.getuid?.()];
  if (!found.every(({ uid }) => trusted.includes(uid))) return 'stranger';
  const own = pid === 0 ? undefined : listenersOfNetwork(pid);
  if (own === undefined) return 'unknown';
  return own.some(({ port }) => port === inside) ? 'own' : 'nobody';
}

interface OwnSockets {
  readonly inodes: ReadonlySet<string>;
  /** The users of processes whose files may not be looked at: a socket of theirs cannot be told from another. */
  readonly hiddenUids: ReadonlySet<number>;
}

function socketsOf(pid: number): OwnSockets {
  const inodes = new Set<string>();
  const hiddenUids = new Set<number>();
  for (const { pid: member } of membersBy(readProcesses())(pid)) {
    const folder = `/proc/${String(member)}/fd`;
    try {
      for (const name of readdirSync(folder)) {
        const inode = /^socket:\[(\d+)\]$/u.exec(linkOf(`${folder}/${name}`))?.[1];
        if (inode !== undefined) inodes.add(inode);
      }
    } catch (error) {
      const uid = isRefused(error) ? uidOf(member) : undefined;
      if (uid !== undefined) hiddenUids.add(uid);
    }
  }
  return { inodes, hiddenUids };
}

function uidOf(pid: number): number | undefined {
  try {
    const status = readFileSync(`/proc/${String(pid)}/status`, 'utf8');
    const uid = /^Uid:\s+\d+\s+(\d+)/mu.exec(status)?.[1];
    return uid === undefined ? undefined : Number(uid);
  } catch {
    return undefined;
  }
}

function linkOf(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    return ''; // closed meanwhile
  }
}

function isRefused(error: unknown): boolean {
  return (
    error instanceof Error && 'code' in error && (error.code === 'EACCES' || error.code === 'EPERM')
  );
}
