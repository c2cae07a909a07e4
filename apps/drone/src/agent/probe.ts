/**
 * Whether a backend answers on its port, and whose socket it is that answers. Any process of the machine may listen
 * there: only sockets of the backend's own processes make it ready, and a stranger's is never handed out.
 */
import {
  closeSync,
  lstatSync,
  opendirSync,
  openSync,
  readFileSync,
  readlinkSync,
  readSync,
} from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { setImmediate as turn, setTimeout as pause } from 'node:timers/promises';
import type { ReadinessConfig } from '../config.ts';
import { membersBy, readProcesses, startedBy } from '../warden/processes.ts';

/** How soon a stranger on the port of a backend that is ready is noticed. */
const WATCH_MS = 2_000;

interface Probed {
  readonly readiness: ReadinessConfig;
  /** Its process is known only after a while. */
  readonly port: () => BackendPort;
  /** Whether it runs, and nobody has asked for its end. */
  readonly isWanted: () => boolean;
  readonly listeners: ReadListeners;
}

/** What is probed of a backend on its port; `pid` is that of its first process. */
export function probedOf(
  readiness: ReadinessConfig,
  of: Pick<Probed, 'isWanted' | 'listeners'> &
    Omit<BackendPort, 'pid'> & { readonly pid: () => number },
): Probed {
  const { host, port, inside, pid, isWanted, listeners } = of;
  return { readiness, port: () => ({ host, port, inside, pid: pid() }), isWanted, listeners };
}

/** `stranger`: another process listens on its port, so that nobody may be sent there. */
type ProbeEnd = 'ready' | 'unwanted' | 'stranger';

/** The pause after the first try; each further one is twice as long, up to the configured interval. */
const TRY_FIRST_MS = 5;

/** Resolves when the backend answers, and it is the backend that does. */
export async function untilReady(probed: Probed): Promise<ProbeEnd> {
  const { readiness, port, isWanted, listeners } = probed;
  for (let pauseMs = TRY_FIRST_MS; isWanted(); pauseMs *= 2) {
    const { host, port: number } = port();
    if (await isAnswering(readiness, host, number)) {
      const owner = await ownerOf(port(), listeners);
      if (owner === 'stranger') return isWanted() ? 'stranger' : 'unwanted';
      // Its socket may have been closed between the two looks.
      if (owner !== 'nobody' || readiness.type === 'none') break;
    }
    await pause(Math.min(pauseMs, readiness.intervalMs));
  }
  return isWanted() ? 'ready' : 'unwanted';
}

/** The pause after the first look for a claim; each further one is longer, up to the configured interval. */
const CLAIM_FIRST_MS = 1;
const CLAIM_SLOWER = 1.02;

/** Why a warm process that was claimed is not ready, until it has taken its claim. */
const UNCLAIMED =
  'it was kept warm, and has not taken its claim: a program with `warm` must read LEASEHOLD_CLAIM_FILE and remove it';

/**
 * For a warm process that was claimed: resolves when it has removed its claim, or is over. Before that it may answer,
 * and serves no key. A file that cannot be looked for is not taken for removed. `onProblem` is told why it is not ready.
 */
export async function untilClaimTaken(
  { isWanted, readiness }: Probed,
  file: string,
  onProblem: (problem: string | undefined) => void,
): Promise<void> {
  onProblem(UNCLAIMED);
  for (let pauseMs = CLAIM_FIRST_MS; isWanted() && isThere(file); pauseMs *= CLAIM_SLOWER) {
    await pause(Math.min(pauseMs, readiness.intervalMs));
  }
  if (isWanted()) onProblem(undefined);
}

function isThere(file: string): boolean {
  try {
    return lstatSync(file, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return true;
  }
}

/** For a backend that is ready: resolves when it is over, or another process listens in its place. */
export async function untilTaken({ port, isWanted, listeners }: Probed): Promise<ProbeEnd> {
  const watch = new PortWatch(port, listeners);
  while (isWanted()) {
    if ((await watch.look()) === 'stranger') return isWanted() ? 'stranger' : 'unwanted';
    await pause(WATCH_MS, undefined, { ref: false });
  }
  return 'unwanted';
}

/** How long one try may take; a server that is slower than this is not ready. */
const TRY_TIMEOUT_MS = 1_000;

/** Whether a backend answers now: takes a TCP connection, or an HTTP request without an error. */
function isAnswering(readiness: ReadinessConfig, host: string, port: number): Promise<boolean> {
  switch (readiness.type) {
    case 'none':
      return Promise.resolve(true);
    case 'tcp':
      return takesConnection(host, port);
    case 'http':
      return answersHttp(host, port, readiness.path);
  }
}

function takesConnection(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect({ host, port, timeout: TRY_TIMEOUT_MS });
    for (const event of ['connect', 'timeout', 'error']) {
      socket.once(event, () => {
        socket.destroy();
        resolve(event === 'connect');
      });
    }
  });
}

function answersHttp(host: string, port: number, path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const request = http.get(
      { host, port, path, agent: false, timeout: TRY_TIMEOUT_MS },
      (response) => {
        response.resume();
        resolve((response.statusCode ?? 500) < 400);
        request.destroy();
      },
    );
    for (const event of ['timeout', 'error']) {
      request.once(event, () => {
        request.destroy();
        resolve(false);
      });
    }
  });
}

/**
 * `own`: every socket is the backend's. `nobody`: it does not exist. `stranger`: one is not the backend's.
 * `unknown`: this machine does not tell, or the backend has too many open files to look at.
 */
export type PortOwner = 'own' | 'nobody' | 'stranger' | 'unknown';

interface BackendPort {
  readonly host: string;
  readonly port: number;
  /** The first of the backend's processes that this process sees; zero while none is known. */
  readonly pid: number;
  /** The port in the network of its own that the backend has; null when it is in the machine's. */
  readonly inside: number | null;
}

/** Judges by the sockets of now. */
export async function ownerOf(
  backend: BackendPort,
  listeners: ReadListeners,
  filesMax?: number,
): Promise<PortOwner> {
  return (await judge(backend, listeners, filesMax)).owner;
}

/** As {@link ownerOf}, for backends whose sockets change rarely: looks at processes only when they did. */
export class PortWatch {
  readonly #backend: () => BackendPort;
  readonly #listeners: ReadListeners;
  #judged = '';
  #owner: PortOwner = 'nobody';
  #hasLooked = false;

  constructor(backend: () => BackendPort, listeners: ReadListeners) {
    this.#backend = backend;
    this.#listeners = listeners;
  }

  async look(): Promise<PortOwner> {
    const backend = this.#backend();
    // Only the first look needs a list of its own: a backend may listen never, and is looked at all the same.
    const seen = inodesOf(listenersAt(backend, this.#listeners(!this.#hasLooked)));
    this.#hasLooked = true;
    if (seen === '') return 'nobody';
    if (seen !== this.#judged) {
      const { owner, inodes } = await judge(backend, this.#listeners);
      this.#owner = owner;
      this.#judged = inodes;
    }
    return this.#owner;
  }
}

interface Judgement {
  readonly owner: PortOwner;
  readonly inodes: string;
}

/** By the sockets of now, which `inodes` names. */
async function judge(
  backend: BackendPort,
  listeners: ReadListeners,
  filesMax: number = FILES_MAX,
): Promise<Judgement> {
  const first = await judgeOnce(backend, listeners, filesMax);
  // One that was closed between the two looks is in the list, and in no process any more.
  return first.owner === 'stranger' ? judgeOnce(backend, listeners, filesMax) : first;
}

async function judgeOnce(
  backend: BackendPort,
  listeners: ReadListeners,
  filesMax: number,
): Promise<Judgement> {
  const all = listeners(true);
  if (all === undefined) return { owner: 'unknown', inodes: '' };
  const found = listenersAt(backend, all);
  return { owner: await judgeOwner(backend, found, filesMax), inodes: inodesOf(found) };
}

/** One text for the same sockets in any order; empty for none. */
function inodesOf(found: readonly Listener[]): string {
  return found
    .map(({ inode }) => inode)
    .sort()
    .join(' ');
}

async function judgeOwner(
  backend: BackendPort,
  found: readonly Listener[],
  filesMax: number,
): Promise<PortOwner> {
  const { inside, pid } = backend;
  if (inside !== null) return ofOwnNetwork({ inside, pid }, found);
  if (found.length === 0) return 'nobody';
  if (pid === 0) return 'unknown';
  const look = new SocketLook(found, filesMax);
  // Mostly they are of what it has started, which is found without a look at every process of the machine.
  await look.at(startedBy(pid));
  if (!look.isOver) await look.at(membersOf(pid));
  if (look.hasAll) return 'own';
  return look.isOver ? 'unknown' : 'stranger';
}

function membersOf(pid: number): number[] {
  return membersBy(readProcesses())(pid).map((member) => member.pid);
}

function listenersAt({ host, port }: BackendPort, all: Listeners | undefined): Listener[] {
  const found = (all?.get(port) ?? []).filter((one) => isReachedAt(one, host));
  // The kernel gives connections of version 4 to a socket of version 4 where there is one.
  const ofFour = net.isIPv4(host) ? found.filter(({ address }) => net.isIPv4(address)) : [];
  return ofFour.length > 0 ? ofFour : found;
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

/** How many open files one look may ask about, which takes about a second of processor time. */
const FILES_MAX = 200_000;
/** After so many of them the keys of other backends have their turn. */
const FILES_IN_A_TURN = 1_000;

/** Looks for sockets among the open files of processes, until each is found or it has asked about too many files. */
class SocketLook {
  /** The user of each socket that is not found yet, by its inode. */
  readonly #missing: Map<string, number>;
  readonly #seenPids = new Set<number>();
  #filesLeft: number;

  constructor(wanted: readonly Listener[], filesMax: number) {
    this.#missing = new Map(wanted.map(({ inode, uid }) => [inode, uid]));
    this.#filesLeft = filesMax;
  }

  /** Whether all of the sockets are of the processes that were looked at, as far as that can be told. */
  get hasAll(): boolean {
    return this.#missing.size === 0;
  }

  /** Whether no further process is looked at. */
  get isOver(): boolean {
    return this.hasAll || this.#filesLeft <= 0;
  }

  async at(pids: Iterable<number>): Promise<void> {
    for (const pid of pids) {
      if (this.isOver) return;
      if (this.#seenPids.has(pid)) continue;
      this.#seenPids.add(pid);
      try {
        await this.#atFilesOf(pid);
      } catch (error) {
        // A socket of a user whose files may not be looked at cannot be told from another of that user.
        if (isRefused(error)) this.#findAllOf(uidOf(pid));
      }
    }
  }

  async #atFilesOf(pid: number): Promise<void> {
    const folder = `/proc/${String(pid)}/fd`;
    const files = opendirSync(folder, { bufferSize: FILES_IN_A_TURN });
    try {
      for (let file = files.readSync(); file !== null; file = files.readSync()) {
        if (this.isOver) return;
        this.#filesLeft -= 1;
        const inode = /^socket:\[(\d+)\]$/u.exec(linkOf(`${folder}/${file.name}`))?.[1];
        if (inode !== undefined) this.#missing.delete(inode);
        if (this.#filesLeft % FILES_IN_A_TURN === 0) await turn();
      }
    } finally {
      files.closeSync();
    }
  }

  #findAllOf(hiddenUid: number | undefined): void {
    for (const [inode, uid] of this.#missing) if (uid === hiddenUid) this.#missing.delete(inode);
  }
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

/** A socket of this machine that listens for TCP connections, as the kernel shows it in `/proc`. */
interface Listener {
  /** As a URL writes it: `127.0.0.1`, `[::1]`. */
  readonly address: string;
  readonly port: number;
  readonly uid: number;
  /** Identifies the socket, and with it the processes that have it open. */
  readonly inode: string;
}

const CHUNK_BYTES = 64 * 1_024;
const LISTENS = '0A';
/** How old a list may be that many backends share. */
const AGE_MS_MAX = 500;

const ANY_ADDRESS = new Set(['0.0.0.0', '[::]']);
/** By port, because each of many backends asks for its own. */
type Listeners = ReadonlyMap<number, readonly Listener[]>;
let last: { atMs: number; listeners: Listeners | undefined } | undefined;

/** The listeners of a machine, by port; maybe a moment old unless `isFresh`. Undefined where they cannot be read. */
export type ReadListeners = (isFresh: boolean) => Listeners | undefined;

/** Those of this process's network, up to {@link AGE_MS_MAX} old unless `isFresh`; undefined where there is no `/proc`. */
export function readListeners(isFresh: boolean): Listeners | undefined {
  const nowMs = performance.now();
  if (isFresh || last === undefined || nowMs - last.atMs > AGE_MS_MAX) {
    const all = listenersOfNetwork('self');
    last = { atMs: nowMs, listeners: all && byPort(all) };
  }
  return last.listeners;
}

function byPort(all: readonly Listener[]): Listeners {
  const found = new Map<number, Listener[]>();
  for (const one of all) {
    const same = found.get(one.port);
    if (same === undefined) found.set(one.port, [one]);
    else same.push(one);
  }
  return found;
}

/** Those of the network that a process is in; undefined when that cannot be read. */
function listenersOfNetwork(pid: number | 'self'): readonly Listener[] | undefined {
  const lists = ['tcp', 'tcp6'].map((name) => read(`/proc/${String(pid)}/net/${name}`));
  if (lists.every((list) => list === undefined)) return undefined;
  return lists.flatMap((list) => list ?? []);
}

/** Whether what comes to `host` on its port comes to this socket. A `host` that is a name may be any address. */
function isReachedAt({ address }: Listener, host: string): boolean {
  if (ANY_ADDRESS.has(address)) return true;
  const wanted = canonical(host);
  return wanted === undefined || ANY_ADDRESS.has(wanted) || wanted === address;
}

function canonical(host: string): string | undefined {
  const version = net.isIP(host);
  if (version === 0) return undefined;
  // The zone of an address names an interface; sockets are listed without.
  const [plain = ''] = host.split('%');
  return withoutMapping(new URL(`http://${version === 6 ? `[${plain}]` : plain}`).hostname);
}

/** An address of version 4 in the form of version 6 is that of version 4. */
function withoutMapping(address: string): string {
  const mapped = /^\[::ffff:([0-9a-f]+):([0-9a-f]+)\]$/u.exec(address);
  if (mapped === null) return address;
  const words = [mapped[1], mapped[2]].map((word) => Number.parseInt(word ?? '', 16));
  return words.flatMap((word) => [word >> 8, word & 0xff]).join('.');
}

/** Undefined when it cannot be read, such as where there is no version 6 of the protocol. */
function read(file: string): Listener[] | undefined {
  try {
    const descriptor = openSync(file, 'r');
    try {
      return readFrom(descriptor);
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return undefined;
  }
}

/** The sockets that listen come first: nothing behind them is read, however many connections there are. */
function readFrom(descriptor: number): Listener[] {
  const found: Listener[] = [];
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let rest = '';
  for (;;) {
    const bytes = readSync(descriptor, chunk);
    const lines = (rest + chunk.toString('latin1', 0, bytes)).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const fields = line.trim().split(/\s+/u);
      if (fields[0] === 'sl') continue;
      if (fields[3] !== LISTENS) return found;
      found.push(listenerOf(fields));
    }
    if (bytes === 0) return found;
  }
}

function listenerOf(fields: readonly string[]): Listener {
  const [address = '', port = ''] = (fields[1] ?? '').split(':');
  return {
    address: addressOf(address),
    port: Number.parseInt(port, 16),
    uid: Number(fields[7]),
    inode: fields[9] ?? '',
  };
}

/** The kernel writes each four bytes of an address as one number of this machine's byte order, which is little-endian. */
function addressOf(digits: string): string {
  const bytes = (digits.match(/.{8}/gu) ?? []).flatMap((word) =>
    (word.match(/../gu) ?? []).reverse(),
  );
  if (bytes.length === 4) return bytes.map((byte) => Number.parseInt(byte, 16)).join('.');
  const words = Array.from({ length: 8 }, (_, index) =>
    bytes.slice(2 * index, 2 * index + 2).join(''),
  );
  return withoutMapping(new URL(`http://[${words.join(':')}]`).hostname);
}
