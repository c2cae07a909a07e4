/**
 * An attacker from outside: a process that has the address of a controller and at most a token, and
 * speaks the protocol by hand. It attacks for the given time and prints the results as JSON.
 *
 *   node attacker.mjs '{"name":"viewer-sockets","url":"http://…","token":"lh_…","attackMs":10000}'
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { TRANSPORT_ATTACKS } from './transport-attacks.mjs';

const { name, url, token, attackMs } = JSON.parse(process.argv[2]);
/** Its time begins when it is first asked for: what it prepares before may take long. */
let endMs;
const isOver = () => performance.now() >= (endMs ??= performance.now() + attackMs);

/** What an attacker keeps unsent, so that it attacks the controller and not its own memory. */
const UNSENT_BYTES_MAX = 4 * 1_024 * 1_024;
const PAUSE_MS = 5;
const BATCH = 1_000;

let tried = 0;
const refused = {};
const refuse = (code, count = 1) => {
  refused[code] = (refused[code] ?? 0) + count;
};

/** A WebSocket with a token, if there is one. `onAnswer` is called at the end of each call. */
async function connect(onAnswer = () => undefined) {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/trpc?connectionParams=1`);
  socket.on('error', () => undefined);
  socket.on('message', (data) => {
    for (const reply of [JSON.parse(data)].flat()) {
      if (reply.error !== undefined) refuse(reply.error.data?.leaseholdCode ?? 'unknown');
      if (reply.error !== undefined || reply.result?.type !== 'started') onAnswer(socket, reply);
    }
  });
  socket.on('close', (code) => refuse(`closed ${code}`));
  await new Promise((resolve) => {
    socket.once('open', resolve).once('close', resolve);
  });
  if (socket.readyState === WebSocket.OPEN) {
    const data = token === null ? {} : { token };
    socket.send(JSON.stringify({ method: 'connectionParams', data }));
  }
  return socket;
}

let lastId = 0;
function message(method, path, input) {
  tried += 1;
  return { id: (lastId += 1), method, params: { path, input } };
}
const call = (socket, method, path, input) => {
  if (socket.readyState === WebSocket.OPEN)
    socket.send(JSON.stringify(message(method, path, input)));
};

/** Calls `work` on this many sockets, each replaced when it was closed, until the time is up. */
async function onSockets(count, work, onAnswer) {
  await Promise.all(
    Array.from({ length: count }, async () => {
      while (!isOver()) {
        const socket = await connect(onAnswer);
        await work(socket);
        while (!isOver() && socket.readyState === WebSocket.OPEN) await sleep(PAUSE_MS);
        socket.terminate();
        await sleep(PAUSE_MS);
      }
    }),
  );
}

/** Sends until the time is up. */
async function flood(socket, next) {
  do {
    const isFull = socket.bufferedAmount >= UNSENT_BYTES_MAX;
    if (!isFull) socket.send(next());
    // A loop without a pause would take a core from the controller, which runs on this machine too.
    await sleep(isFull ? PAUSE_MS : 0);
  } while (!isOver() && socket.readyState === WebSocket.OPEN);
}

/** Posts until the time is up, several at a time. */
async function post(atOnce, next) {
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (!isOver()) {
        const { path, ...request } = next();
        await fetch(`${url}${path}`, { method: 'POST', ...request }).then(
          async (response) => {
            await response.arrayBuffer();
            if (!response.ok) refuse(String(response.status));
          },
          () => refuse('no answer'),
        );
      }
    }),
  );
}

const read = (limit) => message('query', 'leases.list', { limit });
const get = () => message('query', 'leases.get', { namespace: ['attack'], key: 'one' });

/** Sockets that always have this many lists under way. */
const listOver = (sockets, atOnce, limit) =>
  onSockets(
    sockets,
    (socket) => {
      for (let nth = 0; nth < atOnce; nth += 1) socket.send(JSON.stringify(read(limit)));
    },
    (socket) => {
      if (!isOver() && socket.readyState === WebSocket.OPEN)
        socket.send(JSON.stringify(read(limit)));
    },
  );

const ATTACKS = {
  'anonymous-batches': () => {
    const body = Object.fromEntries(
      Array.from({ length: BATCH }, (_, nth) => [nth, { name: 'a' }]),
    );
    const path = `/trpc/${Array(BATCH).fill('keys.get').join(',')}?batch=1`;
    return Promise.all([
      onSockets(4, (socket) =>
        flood(socket, () => JSON.stringify(Array.from({ length: BATCH }, get))),
      ),
      post(4, () => {
        tried += BATCH;
        return {
          path,
          body: JSON.stringify(body),
          headers: { 'content-type': 'application/json' },
        };
      }),
    ]);
  },
  'anonymous-garbage': () => {
    const headers = { 'content-type': 'application/json', authorization: 'Bearer lh_wrong' };
    const kinds = [
      { path: '/trpc/leases.acquire', body: '{"key":', headers },
      { path: '/trpc/no.such', body: '{}', headers },
      { path: '/trpc/leases.acquire', body: 'x'.repeat(100_000), headers },
      { path: '/%ff/../..', body: '{}', headers: { 'content-type': 'text/plain' } },
    ];
    return Promise.all([
      onSockets(4, (socket) => flood(socket, () => ((tried += 1), '{"id":1,"method":"quer'))),
      post(8, () => kinds[(tried += 1) % kinds.length]),
    ]);
  },
  'viewer-sockets': () => listOver(12, 50, 500),
  'old-events': () =>
    onSockets(6, (socket) => {
      for (let nth = 0; nth < 5; nth += 1)
        call(socket, 'subscription', 'events.watch', { afterId: 'oldest' });
    }),
  subscriptions: () =>
    onSockets(4, (socket) => {
      for (let nth = 0; nth < 250; nth += 1) call(socket, 'subscription', 'events.watch', {});
    }),
  waiters: async () => {
    const input = {
      namespace: ['attack'],
      key: 'wanted',
      ttlMs: 60_000,
      holder: 'attacker',
      localTimeMs: 0,
    };
    const socket = await connect();
    call(socket, 'mutation', 'leases.acquire', { ...input, waitMs: 0 });
    await onSockets(10, (waiting) => {
      for (let nth = 0; nth < 500; nth += 1) {
        const holder = `attacker-${String(lastId)}`;
        call(waiting, 'mutation', 'leases.acquire', { ...input, holder, waitMs: 60_000 });
      }
    });
    socket.terminate();
  },
  'large-pages': async () => {
    const metadata = { text: 'x'.repeat(16_000) };
    const socket = await connect();
    for (let nth = 0; nth < 500; nth += 1) {
      const key = `large-${String(nth)}`;
      const input = {
        namespace: ['attack'],
        key,
        ttlMs: 60_000,
        waitMs: 0,
        holder: 'attacker',
        localTimeMs: 0,
        metadata,
      };
      call(socket, 'mutation', 'leases.acquire', input);
    }
    await listOver(12, 20, 500);
    socket.terminate();
  },
  history: () =>
    onSockets(4, (socket) => {
      const input = { namespace: ['attack'], ttlMs: 60_000, waitMs: 0, localTimeMs: 0 };
      const metadata = { text: 'x'.repeat(8_000) };
      return flood(socket, () => {
        const key = `history-${String(lastId)}`;
        const call = { ...input, key, holder: 'attacker', metadata };
        return JSON.stringify(message('mutation', 'leases.acquire', call));
      });
    }),
  'unread-answers': () =>
    onSockets(12, (socket) => {
      socket.pause();
      return flood(socket, () => JSON.stringify(read(500)));
    }),
};

const means = {
  url,
  token,
  isOver,
  refuse,
  onSockets,
  flood,
  count: (more) => {
    tried += more;
  },
};
await (ATTACKS[name] ?? TRANSPORT_ATTACKS[name])(means);
process.stdout.write(JSON.stringify({ tried, refused }), () => process.exit(0));
