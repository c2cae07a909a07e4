import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import http, { type IncomingMessage } from 'node:http';
import path from 'node:path';
import type { Duplex } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { invariant } from '@leasehold/keys-core';
import { openStage, type GatewayProcess, type Stage } from '@leasehold/testing/stack';
import { bundled, startChild } from './rig/child.ts';
import type { Figure } from './rig/figures.ts';
import type { RoundReport } from './rig/gateway-client.ts';
import { residentBytes } from './rig/processes.ts';
import { usedUs } from './rig/processor-time.ts';
import {
  atLeast,
  atMost,
  cores,
  megabytes,
  microseconds,
  milliseconds,
  perSecond,
  times,
} from './rig/quantities.ts';
import type { Rig } from './rig/rig.ts';
import { compareRates, median, quantile, takeTurns } from './rig/rounds.ts';
import { freePort, provide, startPeerServer } from './services/peer-server.ts';

const CONNECTION_COUNT = 256;
const CONNECTIONS = `${String(CONNECTION_COUNT)} connections`;
const SHARE_GOAL = 0.7;

const SOCKET_COUNT = 10_000;
/** Backends that they are open to. */
const SOCKET_ROOMS = 10;
const OPENING_COUNT = 100;
const SOCKETS_MB_MAX = 400;
const SOCKETS_CORES_MAX = 0.05;
/** Until most of what the opening has left is collected. */
const SETTLE_MS = 10_000;
/** Long enough that V8's own collections of what the opening left, within half a minute, count as what they are: once. */
const REST_MS = 60_000;

const WARM_MS_MAX = 50;
const WAKE_LOOK_MS = 20;

/** The server, and the package that has it. */
const NGINX = { command: 'nginx', debianPackage: 'nginx-light', service: 'nginx' };

/** A Leasehold as it ships, and what browsers reach of it. */
interface Site {
  readonly stage: Stage;
  readonly gateway: GatewayProcess;
}

/**
 * What the way through a gateway costs: requests against its proxy library alone and nginx before the same backend,
 * what a request waits for that wakes a backend, and WebSockets at rest.
 */
export async function measureGateway(rig: Rig): Promise<Figure[]> {
  const site = await openSite(rig);
  return [
    ...(await measureRequests(rig, site)),
    ...(await measureWakes(rig, site)),
    // The last: a drone reads the list of the machine's sockets, which then is long for a while.
    ...(await measureSockets(rig, site)),
  ];
}

async function openSite(rig: Rig): Promise<Site> {
  const { url: databaseUrl } = await rig.database('bench_gateway');
  const port = await freePort();
  const stage = await openStage({
    name: 'bench-gateway',
    databaseUrl,
    ladder: 'standard',
    entry: bundled('controller'),
    env: { LEASEHOLD_GATEWAY_URL: `http://127.0.0.1:${String(port)}` },
  });
  rig.onClose(() => stage.close());
  const program = { command: process.execPath, args: [bundled('gateway-room')] };
  await stage.startDrone({
    droneId: 'bench',
    entry: bundled('drone'),
    programs: { room: program, 'warm-room': { ...program, warm: 1 } },
    env: { LEASEHOLD_LOG_LEVEL: 'warn' },
    config: { capacity: 200 },
  });
  const env = { LEASEHOLD_LOG_LEVEL: 'warn' };
  const gateway = await stage.startGateway({ port, entry: bundled('gateway'), env });
  return { stage, gateway };
}

/** A key with a backend that runs. @returns its address, and where browsers reach it. */
async function openRoom({ stage }: Site, name: string): Promise<{ address: string; url: string }> {
  const key = { name };
  const spawn = { program: 'room' };
  const { address } = await stage.api().keys.connect.mutate({ key, spawn, waitFor: 'ready' });
  invariant(address !== null, 'a backend that is ready has an address');
  return { address, url: await signedUrl(stage, name, spawn.program) };
}

async function signedUrl(stage: Stage, name: string, program: string): Promise<string> {
  const { url } = await stage.api().gateway.sign.mutate({
    key: { name },
    access: { user: 'bench', mayStart: true },
    spawn: { program },
  });
  return url;
}

/** A proxy in front of the one backend, and what its rounds were like. */
interface Passer {
  readonly name: string;
  readonly pid: number;
  readonly round: () => Promise<number>;
  readonly p99Ms: number[];
  readonly usOfEach: number[];
}

async function measureRequests(rig: Rig, site: Site): Promise<Figure[]> {
  const { address, url } = await openRoom(site, 'asked');
  const bare = await startChild<string>('bare-proxy', [address.split(':')[1] ?? '']);
  rig.onClose(() => bare.stop());
  const nginx = await startNginx(rig, address);
  const passers = [
    await passerOf(rig, { name: 'gateway', pid: site.gateway.pid, url }),
    await passerOf(rig, { name: 'httpxy alone', pid: bare.pid, url: `${bare.ready}/` }),
    ...(nginx === undefined ? [] : [await passerOf(rig, { name: 'nginx', ...nginx })]),
  ];
  const rates = await takeTurns(passers, rig.isQuick ? 2 : 9);
  const [gateway, ...peers] = passers.map((passer, place) => {
    // The first round does not count.
    const [p99Ms, usOfEach] = [passer.p99Ms.slice(1), passer.usOfEach.slice(1)];
    return { name: passer.name, rates: rates[place] ?? [], p99Ms, usOfEach };
  });
  invariant(gateway !== undefined, 'the gateway is the first');
  return peers.flatMap((peer) => {
    const goal = peer.name === NGINX.command ? {} : { required: atLeast(SHARE_GOAL) };
    const goalMs = peer.name === NGINX.command ? {} : { required: atMost(1 / SHARE_GOAL) };
    const by = compareRates(gateway.rates, peer.rates);
    const byMs = compareRates(gateway.p99Ms, peer.p99Ms);
    const byUs = compareRates(gateway.usOfEach, peer.usOfEach);
    const against = `against ${peer.name}, ${CONNECTIONS}`;
    return [
      {
        what: `requests through a gateway ${against}`,
        ours: perSecond(by.ours),
        theirs: perSecond(by.theirs),
        result: times(by.ratio),
        ...goal,
      },
      {
        what: `… their p99`,
        ours: milliseconds(byMs.ours),
        theirs: milliseconds(byMs.theirs),
        result: times(byMs.ratio),
        ...goalMs,
      },
      {
        what: `… processor time of the proxy for each`,
        ours: microseconds(byUs.ours),
        theirs: microseconds(byUs.theirs),
        result: times(byUs.ratio),
      },
    ];
  });
}

/** A client of its own for each proxy: all are alike. */
async function passerOf(
  rig: Rig,
  of: { readonly name: string; readonly pid: number; readonly url: string },
): Promise<Passer> {
  const forMs = String(rig.isQuick ? 500 : 4_000);
  const client = await startChild('gateway-client', [of.url, String(CONNECTION_COUNT), forMs]);
  rig.onClose(() => client.stop());
  const p99Ms: number[] = [];
  const usOfEach: number[] = [];
  return {
    name: of.name,
    pid: of.pid,
    p99Ms,
    usOfEach,
    async round() {
      const beforeUs = usedUs(of.pid);
      const report = (await client.ask()) as RoundReport;
      usOfEach.push((usedUs(of.pid) - beforeUs) / report.count);
      p99Ms.push(report.p99Ms);
      return report.perSecond;
    },
  };
}

/** One process, as the others are. @returns undefined where there is no nginx. */
async function startNginx(
  rig: Rig,
  address: string,
): Promise<{ pid: number; url: string } | undefined> {
  const file = await provide(NGINX);
  if (file === undefined) return undefined;
  const port = String(await freePort());
  const config = path.join(rig.folder, 'nginx.conf');
  const pidFile = path.join(rig.folder, 'nginx.pid');
  await writeFile(
    config,
    `daemon off; master_process off; pid ${pidFile}; error_log stderr error;
events { worker_connections 4096; }
http {
  access_log off;
  upstream backend { server ${address}; keepalive 64; }
  server {
    listen 127.0.0.1:${port};
    keepalive_requests 10000000;
    location / { proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
`,
  );
  const url = `http://127.0.0.1:${port}/`;
  const server = await startPeerServer(file, ['-p', rig.folder, '-c', config], () =>
    fetch(url).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  rig.onClose(() => server.stop());
  return { pid: server.pid, url };
}

/** WebSockets on which nothing is sent. */
async function measureSockets(rig: Rig, site: Site): Promise<Figure[]> {
  const wanted = rig.isQuick ? 200 : SOCKET_COUNT;
  const { pid } = site.gateway;
  const before = residentBytes(pid);
  const urls: string[] = [];
  for (let room = 0; room < SOCKET_ROOMS; room += 1) {
    urls.push((await openRoom(site, `open-${String(room)}`)).url);
  }
  const sockets: Duplex[] = [];
  rig.onClose(() => {
    for (const socket of sockets) socket.destroy();
    return Promise.resolve();
  });
  while (sockets.length < wanted) {
    const openings = Array.from({ length: Math.min(OPENING_COUNT, wanted - sockets.length) });
    const opened = await Promise.allSettled(
      openings.map((_, nth) => openSocket(urls[nth % SOCKET_ROOMS] ?? '')),
    );
    for (const one of opened) if (one.status === 'fulfilled') sockets.push(one.value);
    if (opened.some(({ status }) => status === 'rejected')) break;
  }
  await pause(rig.isQuick ? 100 : SETTLE_MS);
  const usedBeforeUs = usedUs(pid);
  const beganAtMs = performance.now();
  await pause(rig.isQuick ? 500 : REST_MS);
  const coresUsed = (usedUs(pid) - usedBeforeUs) / 1_000 / (performance.now() - beganAtMs);
  const bytes = residentBytes(pid);
  const count = sockets.filter(({ destroyed }) => !destroyed).length;
  for (const socket of sockets) socket.destroy();
  const what = `${count.toLocaleString('en-US')} WebSockets at rest through a gateway`;
  return [
    {
      what: `${what}: its resident memory`,
      result: megabytes(bytes),
      required: atMost(SOCKETS_MB_MAX),
    },
    { what: '… before the first of them', result: megabytes(before) },
    { what: '… its processor', result: cores(coresUsed), required: atMost(SOCKETS_CORES_MAX) },
  ];
}

async function openSocket(url: string): Promise<Duplex> {
  const request = http.get(url, {
    agent: false,
    headers: {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    },
  });
  const [response, socket] = (await Promise.race([
    once(request, 'upgrade'),
    once(request, 'response'),
  ])) as [IncomingMessage, Duplex | undefined];
  invariant(socket !== undefined, `it is a WebSocket: ${String(response.statusCode)}`);
  socket.on('error', () => undefined);
  return socket;
}

/** Requests for keys that have no backend, which start one, cold and warm in turn. */
async function measureWakes(rig: Rig, { stage }: Site): Promise<Figure[]> {
  const wakes: Record<'cold' | 'warm', Wake[]> = { cold: [], warm: [] };
  const count = rig.isQuick ? 2 : 20;
  // The first of each does not count.
  for (let nth = -1; nth < count; nth += 1) {
    for (const kind of ['cold', 'warm'] as const) {
      const program = kind === 'cold' ? 'room' : 'warm-room';
      await untilWarm(stage);
      const name = `${kind}-${String(nth + 1)}`;
      const wake = await wakeKey(stage, name, program);
      if (nth >= 0) wakes[kind].push(wake);
    }
  }
  const figure = (kind: 'cold' | 'warm', share: number): Figure => ({
    what: `first byte of a key without a backend, ${kind}, p${String(share * 100)}`,
    result: milliseconds(
      quantile(
        wakes[kind].map(({ tookMs }) => tookMs),
        share,
      ),
    ),
  });
  return [
    figure('cold', 0.5),
    { ...figure('warm', 0.5), required: atMost(WARM_MS_MAX) },
    figure('warm', 0.9),
    ...WAKE_PARTS.map(({ of, part }) => ({
      what: `… warm, p50 of ${of}`,
      result: milliseconds(median(wakes.warm.map((wake) => part(wake.atMs)))),
    })),
  ];
}

async function untilWarm(stage: Stage): Promise<void> {
  for (;;) {
    const { warm } = await stage.api().drones.get.query({ droneId: 'bench' });
    if (warm.every(({ count, wanted }) => count >= wanted)) break;
    await pause(WAKE_LOOK_MS);
  }
}

/** A request that has woken a key. */
interface Wake {
  readonly tookMs: number;
  /** By the clock of the machine: when it was sent and answered, and when the backend is known to have been in a state. */
  readonly atMs: ReadonlyMap<string, number>;
}

const since = (from: string, to: string) => (atMs: Wake['atMs']) =>
  (atMs.get(to) ?? Number.NaN) - (atMs.get(from) ?? Number.NaN);

/** What the time of a warm wake consists of. */
const WAKE_PARTS = [
  { of: 'request to grant', part: since('sent', 'scheduled') },
  { of: 'grant to claim', part: since('scheduled', 'waiting') },
  { of: 'claim to ready', part: since('waiting', 'ready') },
  { of: 'ready to first byte', part: since('ready', 'answered') },
];

async function wakeKey(stage: Stage, name: string, program: string): Promise<Wake> {
  const url = await signedUrl(stage, name, program);
  const sentAtMs = Date.now();
  const startedAtMs = performance.now();
  const request = http.get(url, { agent: false });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const tookMs = performance.now() - startedAtMs;
  invariant(response.statusCode === 200, `it is answered: ${String(response.statusCode)}`);
  response.resume();
  await once(response, 'close');
  const { backendId } = await stage.api().keys.connect.mutate({ key: { name } });
  const { states, createdAt } = await stage.api().backends.get.query({ backendId });
  const atMs = new Map<string, number>(states.map(({ status, at }) => [status, Date.parse(at)]));
  atMs.set('sent', sentAtMs).set('scheduled', Date.parse(createdAt));
  return { tookMs, atMs: atMs.set('answered', sentAtMs + tookMs) };
}
