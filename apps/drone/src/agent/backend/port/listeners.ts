/** The sockets of this machine that listen for TCP connections, as the kernel shows them in `/proc`. */
import { closeSync, openSync, readSync } from 'node:fs';
import net from 'node:net';

export interface Listener {
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
let last: { atMs: number; listeners: readonly Listener[] | undefined } | undefined;

/** Those of this process's network, up to {@link AGE_MS_MAX} old unless `isFresh`; undefined where there is no `/proc`. */
export function listeners(isFresh: boolean): readonly Listener[] | undefined {
  const nowMs = performance.now();
  if (isFresh || last === undefined || nowMs - last.atMs > AGE_MS_MAX) {
    last = { atMs: nowMs, listeners: listenersOfNetwork('self') };
  }
  return last.listeners;
}

/** Those of the network that a process is in; undefined when that cannot be read. */
export function listenersOfNetwork(pid: number | 'self'): readonly Listener[] | undefined {
  const lists = ['tcp', 'tcp6'].map((name) => read(`/proc/${String(pid)}/net/${name}`));
  if (lists.every((list) => list === undefined)) return undefined;
  return lists.flatMap((list) => list ?? []);
}

/** Whether what comes to `host` on its port comes to this socket. A `host` that is a name may be any address. */
export function isReachedAt({ address }: Listener, host: string): boolean {
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
