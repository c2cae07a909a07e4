/**
 * Attacks on what carries the calls: sockets, requests and frames that no client of ours sends. Each gets the
 * attacker's means, and goes on until its time is up.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { connect as connectTo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const PAUSE_MS = 5;
/** Bytes that one socket keeps unsent. */
const UNSENT_BYTES_MAX = 1_024 * 1_024;

/** A socket of TCP, replaced when it was closed, that sends `next` as fast as it goes, until the time is up. */
async function flood({ url, isOver, count, refuse }, next) {
  const { hostname, port } = new URL(url);
  while (!isOver()) {
    const socket = connectTo(Number(port), hostname)
      .on('error', () => undefined)
      .resume();
    let isOpen = true;
    socket.once('close', () => {
      isOpen = false;
      refuse('closed');
    });
    while (!isOver() && isOpen) {
      if (socket.writableLength < UNSENT_BYTES_MAX) {
        const { bytes, requests } = next(socket);
        socket.write(bytes);
        count(requests);
      }
      await sleep(PAUSE_MS);
    }
    socket.destroy();
  }
}

const over = (sockets, work) => Promise.all(Array.from({ length: sockets }, work));

/** Many requests as one piece. */
function pipelined(lines, times) {
  const [first, ...headers] = lines;
  const request = `${[`${first} HTTP/1.1`, 'Host: x', ...headers].join('\r\n')}\r\n\r\n`;
  return { bytes: request.repeat(times), requests: times };
}

const UPGRADE = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`,
];

/** A frame of a masked text of one letter; not the last of its message. */
const PART = Buffer.from([0x00, 0x81, 0, 0, 0, 0, 0x78]);
const FIRST_PART = Buffer.from([0x01, 0x81, 0, 0, 0, 0, 0x78]);

/** An input of this many bytes, of the smallest values. */
const ones = (bytes) => `[${'1,'.repeat(bytes / 2)}1]`;
const fields = (number) =>
  `{${Array.from({ length: number }, (_, nth) => `"${nth.toString(36)}":1`).join(',')}}`;

/** Sockets that are kept open, and opened again when they were closed. Each says `text`, and does not read. */
async function hold({ url, isOver, count, refuse }, text) {
  const { hostname, port } = new URL(url);
  while (!isOver()) {
    const socket = connectTo(Number(port), hostname).on('error', () => undefined);
    count(1);
    let isOpen = true;
    socket.once('close', () => {
      isOpen = false;
      refuse('closed');
    });
    socket.write(text);
    while (!isOver() && isOpen) await sleep(PAUSE_MS * 10);
    socket.destroy();
  }
}

export const TRANSPORT_ATTACKS = {
  'held-connections': (means) => {
    const texts = ['', 'GET /healthz HTTP/1.1\r\nHost:', 'POST /trpc/leases.acquire HTTP/1.1\r\n'];
    return Promise.all(Array.from({ length: 1_200 }, (_, nth) => hold(means, texts[nth % 3])));
  },
  'unread-streams': (means) => {
    const watch = `GET /trpc/events.watch?input=${encodeURIComponent('{"afterId":"oldest"}')}`;
    const { bytes } = pipelined([watch, `Authorization: Bearer ${means.token}`], 1);
    return over(30, () => hold(means, bytes));
  },
  'sign-in-pages': (means) =>
    over(50, async () => {
      while (!means.isOver()) {
        const { hostname, port } = new URL(means.url);
        const socket = connectTo(Number(port), hostname).on('error', () => undefined);
        socket.write(pipelined(['GET /sign-in?next=/leases'], 4).bytes);
        means.count(4);
        await sleep(PAUSE_MS);
        socket.destroy();
      }
    }),
  'pipelined-requests': (means) =>
    over(20, () => flood(means, () => pipelined(['GET /healthz'], 1_000))),
  'requests-one-by-one': (means) => {
    const kinds = [
      ['GET /healthz'],
      ['GET /nothing'],
      ['OPTIONS /trpc/leases.list'],
      ['GET /trpc/leases.list', 'Authorization: Bearer lh_wrong'],
      ['GET /api/auth/sign-in-options'],
      ['GET /nothing', ...UPGRADE],
    ];
    let nth = 0;
    return over(50, () => flood(means, () => pipelined(kinds[(nth += 1) % kinds.length], 1)));
  },
  'viewer-requests': (means) => {
    const authorization = `Authorization: Bearer ${means.token}`;
    return over(20, () =>
      flood(means, () => pipelined(['GET /trpc/leases.list', authorization], 10)),
    );
  },
  'frames-in-parts': (means) => {
    const open = new WeakSet();
    const parts = Buffer.concat(Array(9_000).fill(PART));
    return over(50, () =>
      flood(means, (socket) => {
        if (open.has(socket)) return { bytes: parts, requests: 1 };
        open.add(socket);
        const { bytes } = pipelined(['GET /trpc?connectionParams=1', ...UPGRADE], 1);
        return { bytes: Buffer.concat([Buffer.from(bytes), FIRST_PART]), requests: 1 };
      }),
    );
  },
  'large-messages': async (means) => {
    const call = (path, input) =>
      `{"id":1,"method":"mutation","params":{"path":"${path}","input":${input}}}`;
    const item = { namespace: ['attack'], key: 'k', ttlMs: 10_000, holder: 'a', localTimeMs: 0 };
    const rest = JSON.stringify(item).slice(1);
    const grant = JSON.stringify({ leaseId: randomUUID(), fencingToken: '1' });
    const messages = [
      call('leases.acquire', `{"metadata":${ones(4_000_000)},${rest}`),
      call('leases.acquire', `{"metadata":${ones(14_000)},${rest}`),
      call('leases.acquireMany', `{"localTimeMs":0,"items":${ones(100_000)}}`),
      call('leases.acquireMany', `{"localTimeMs":0,"items":["${'x'.repeat(900_000)}"]}`),
      call('bulk.start', `{"action":"revoke","items":${ones(100_000)}}`),
      call('leases.list', fields(350_000)),
      call('leases.list', fields(9_000)),
      call('leases.heartbeat', `{"localTimeMs":0,"renewals":${ones(19_000)}}`),
      call(
        'leases.heartbeat',
        `{"localTimeMs":0,"renewals":[${Array(10_000).fill(grant).join(',')}]}`,
      ),
    ];
    await means.onSockets(4, (socket) => {
      let nth = 0;
      return means.flood(socket, () => {
        means.count(1);
        return messages[(nth += 1) % messages.length];
      });
    });
  },
};
