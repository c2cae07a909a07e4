/** What a gateway counts, and where it is read: an address of its own, which no program can take. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import {
  boundAnswers,
  closePipelining,
  createAnswerRate,
} from '@leasehold/service-kit/answers-under-way';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Outcome, PassingObserver } from './passing.ts';
import type { RefusalCode } from './refusal.ts';
import type { Routes } from './routes.ts';
import type { TokenProblem } from './tokens.ts';

const MS_BUCKETS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000];
/** Programs whose connections are counted by name; those of all others are counted together. */
const PROGRAMS_MAX = 50;
const OTHER_PROGRAMS = 'other';

export interface GatewayMetrics {
  readonly registry: Registry;
  readonly observer: PassingObserver;
  refused(code: RefusalCode): void;
  tokenRefused(reason: TokenProblem): void;
  passed(kind: 'request' | 'websocket', outcome: Outcome): void;
  /** How long a request was held. */
  heldFor(durationMs: number): void;
  repeated(): void;
}

export function createMetrics(nowMs: () => number, routes: Routes): GatewayMetrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const of = instrumentsIn(registry);
  addGauges(registry, routes);
  const firstByte = of.firstByte.labels();
  return {
    registry,
    refused: (code) => of.refusals.inc({ code }),
    tokenRefused: (reason) => of.tokens.inc({ reason }),
    passed: (kind, outcome) => void (of.passed[kind][outcome] += 1),
    heldFor: (durationMs) => of.held.observe(durationMs),
    repeated: () => of.repeats.inc(),
    observer: {
      firstByte: (passing) => firstByte.observe(nowMs() - passing.parts.beganAtMs),
      bytes: (direction, count) => void (of.bytes[direction] += count),
    },
  };
}

function instrumentsIn(registry: Registry) {
  const registers = [registry];
  return {
    ...countedIn(registry),
    refusals: new Counter({
      name: 'leasehold_gateway_refusals_total',
      help: 'Requests that the gateway answered itself, by why.',
      labelNames: ['code'],
      registers,
    }),
    tokens: new Counter({
      name: 'leasehold_gateway_tokens_refused_total',
      help: 'Tokens that were refused, by why: malformed, unknown_key, forged, expired or revoked.',
      labelNames: ['reason'],
      registers,
    }),
    repeats: new Counter({
      name: 'leasehold_gateway_repeats_total',
      help: 'Requests that were sent to a second backend, because the first refused the connection.',
      registers,
    }),
    held: new Histogram({
      name: 'leasehold_gateway_held_ms',
      help: 'How long requests were held until there was a route.',
      buckets: MS_BUCKETS,
      registers,
    }),
    firstByte: new Histogram({
      name: 'leasehold_gateway_first_byte_ms',
      help: 'Time from a request to the first byte of its answer.',
      buckets: MS_BUCKETS,
      registers,
    }),
  };
}

/** What is counted with each request, and each piece of one: in plain numbers, which are exported when they are read. */
function countedIn(registry: Registry) {
  const registers = [registry];
  const none = { answered: 0, cut: 0, failed: 0, left: 0 } satisfies Record<Outcome, number>;
  const passed = { request: { ...none }, websocket: { ...none } };
  const bytes = { in: 0, out: 0 };
  new Counter({
    name: 'leasehold_gateway_requests_total',
    help: 'Requests that were passed to backends, by kind and by how they ended.',
    labelNames: ['kind', 'outcome'],
    registers,
    collect() {
      this.reset();
      for (const [kind, counts] of Object.entries(passed)) {
        for (const [outcome, count] of Object.entries(counts)) this.inc({ kind, outcome }, count);
      }
    },
  });
  new Counter({
    name: 'leasehold_gateway_bytes_total',
    help: 'Bytes of bodies and WebSockets, from clients (in) and to them (out).',
    labelNames: ['direction'],
    registers,
    collect() {
      this.reset();
      for (const [direction, count] of Object.entries(bytes)) this.inc({ direction }, count);
    },
  });
  return { passed, bytes };
}

function addGauges(registry: Registry, routes: Routes): void {
  const registers = [registry];
  const gauge = (name: string, help: string, read: () => number): void => {
    new Gauge({
      name: `leasehold_gateway_${name}`,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  };
  gauge('held', 'Requests that are held.', () => routes.held.count);
  gauge('held_bytes', 'What held requests keep in memory.', () => routes.held.bytes);
  gauge('routes', 'Routes that are kept valid.', () => [...routes.active].length);
  gauge(
    'sync_age_ms',
    'Time since the question was sent that the controller answered last; -1 before the first.',
    () => routes.syncAgeMs() ?? -1,
  );
  gauge('route_age_ms', 'For how long the oldest route is known.', () => routes.oldestMs());
  new Gauge({
    name: 'leasehold_gateway_open_connections',
    help: 'Requests in progress and open WebSockets, by program.',
    labelNames: ['program'],
    registers,
    collect() {
      this.reset();
      for (const [program, count] of connectionsByProgram(routes)) this.set({ program }, count);
    },
  });
}

function connectionsByProgram(routes: Routes): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { route, connections } of routes.active) {
    const isKnown = counts.has(route.program) || counts.size < PROGRAMS_MAX;
    const program = isKnown ? route.program : OTHER_PROGRAMS;
    counts.set(program, (counts.get(program) ?? 0) + connections);
  }
  return counts;
}

/** What may be asked here at once, over one connection and in all, and in a second by one address. */
const UNDER_WAY_MAX = 4;
const CONNECTIONS_MAX = 100;
const ANSWERS_PER_SECOND_MAX = 200;
/** To read all metrics looks at each route: after so many readings in a second callers get the last one. */
const READINGS_PER_SECOND_MAX = 10;

const SECOND_MS = 1_000;

/** `/healthz`: the process answers. `/readyz`: it can pass requests. `/metrics`. It needs no token, so it answers little. */
export function createMetricsServer(
  registry: Registry,
  whyNotReady: () => string | undefined,
  clock: Pick<TickingClock, 'nowMs'>,
): Server {
  const nowMs = (): number => clock.nowMs();
  let last: Promise<string> | undefined;
  let readings = { sinceMs: nowMs(), count: 0 };
  const metrics = (): Promise<string> => {
    if (nowMs() - readings.sinceMs >= SECOND_MS) readings = { sinceMs: nowMs(), count: 0 };
    if (last !== undefined && readings.count >= READINGS_PER_SECOND_MAX) return last;
    readings.count += 1;
    last = registry.metrics();
    return last;
  };
  const begin = boundAnswers(UNDER_WAY_MAX);
  const count = createAnswerRate({ perSecondMax: ANSWERS_PER_SECOND_MAX, nowMs });
  const server = createServer((request, response: ServerResponse) => {
    if (!begin(request, response)) return;
    const verdict = count(request.socket.remoteAddress ?? '', request.socket);
    if (verdict === 'close') request.socket.destroy();
    if (verdict === 'refuse') {
      response.writeHead(429, { 'retry-after': '1' }).end('{"status":"too many requests"}');
    }
    if (verdict !== 'answer') return;
    const path = request.url?.split('?', 1)[0];
    const send = (status: number, body: string, type = 'application/json'): void => {
      response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body);
    };
    if (path === '/healthz') send(200, '{"status":"ok"}');
    else if (path === '/readyz') {
      const problem = whyNotReady();
      if (problem === undefined) send(200, '{"status":"ready"}');
      else send(503, JSON.stringify({ status: 'not ready', problem }));
    } else if (path === '/metrics') {
      metrics().then(
        (text) => send(200, text, registry.contentType),
        () => send(500, '{"status":"failed"}'),
      );
    } else send(404, '{"status":"not found"}');
  });
  server.maxConnections = CONNECTIONS_MAX;
  closePipelining(server, UNDER_WAY_MAX);
  return server;
}
