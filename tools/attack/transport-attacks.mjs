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

/** Sockets that say a piece every 50 ms, with less than a request needs, and read nothing. */
async function drip({ url, isOver, count, refuse }, { begin, piece }) {
  const { hostname, port } = new URL(url);
  while (!isOver()) {
    const socket = connectTo(Number(port), hostname).on('error', () => undefined);
    count(1);
    let isOpen = true;
    socket.once('close', () => {
      isOpen = false;
      refuse('closed');
    });
    socket.write(begin);
    while (!isOver() && isOpen) {
      await sleep(PAUSE_MS * 10);
      if (socket.writable) socket.write(piece);
    }
    socket.destroy();
  }
}

/** WebSockets that are cut, or end in one direction alone and never close. */
async function leave({ url, isOver, count }, isCut) {
  const { hostname, port, pathname } = new URL(url);
  const half = [];
  while (!isOver()) {
    const socket = connectTo({ port: Number(port), host: hostname, allowHalfOpen: true });
    socket.on('error', () => undefined).write(pipelined([`GET ${pathname}`, ...UPGRADE], 1).bytes);
    count(1);
    await new Promise((resolve) => {
      socket.once('data', resolve).once('close', resolve);
    });
    if (isCut) socket.resetAndDestroy();
    else half.push(socket.end(PART));
  }
  for (const socket of half) socket.destroy();
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
  'gateway-anonymous': (means) => {
    const kinds = [
      ['GET /k/_/mirrored/'],
      ['GET /t/a.b.c/'],
      ['GET /k/_/mirrored/', 'Authorization: Bearer a.b.c'],
      ['POST /k/_/mirrored/', 'Content-Length: 0', 'Cookie: leasehold-gateway=a.b.c'],
    ];
    let nth = 0;
    // 10,000 a second, as long as they are taken.
    return over(50, () => flood(means, () => pipelined(kinds[(nth += 1) % kinds.length], 1)));
  },
  'gateway-slow': (means) => {
    const { pathname } = new URL(means.url);
    const head = `Host: x\r\nContent-Length: 1000000\r\n\r\n`;
    const kinds = [
      { begin: `GET ${pathname} HTTP/1.1\r\nHost: x\r\n`, piece: 'X-A: b\r\n' },
      { begin: `POST ${pathname} HTTP/1.1\r\n${head}`, piece: 'x' },
      { begin: `GET ${pathname}large HTTP/1.1\r\nHost: x\r\n\r\n`, piece: '' },
    ];
    return Promise.all(Array.from({ length: 300 }, (_, nth) => drip(means, kinds[nth % 3])));
  },
  'gateway-sockets': (means) =>
    Promise.all(Array.from({ length: 20 }, (_, nth) => leave(means, nth % 2 === 0))),
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
