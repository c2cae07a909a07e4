/**
 * The server's side of a measurement, as a process of its own: a controller, and beside it a server
 * of the same make whose one procedure does nothing. Ends with the process that started it.
 */
import fastifyWebsocket from '@fastify/websocket';
import { FAIR_USE_CONFIG_DEFAULTS } from '@leasehold/keys-core';
import { createBootClock, createLogger, systemIds } from '@leasehold/service-kit';
import { initTRPC } from '@trpc/server';
import { getWSConnectionHandler } from '@trpc/server/adapters/ws';
import { fastify } from 'fastify';
import { startController } from '../../../apps/controller/src/compose.ts';
import { SIGN_IN_DEFAULTS } from '../../../apps/controller/src/sign-in/sign-in-config.ts';
import { startProfiler, type TimeByPart } from './profiler.ts';

/** Renewals come often, so that their memory is measured, and expiry is far on a busy machine. */
const LADDER = { renewAfterMs: 5_000, softAfterMs: 25_000, hardAfterMs: 30_000, ttlMs: 40_000 };
const HEARTBEAT_MS = 1_000;

const t = initTRPC.create();
const emptyRouter = t.router({ empty: t.procedure.mutation(() => null) });
export type EmptyRouter = typeof emptyRouter;

/** What the process reports when it is ready. */
export interface BenchServers {
  readonly controllerUrl: string;
  readonly emptyUrl: string;
}

async function startEmptyServer(): Promise<string> {
  const server = fastify();
  await server.register(fastifyWebsocket, { options: { perMessageDeflate: false } });
  const connect = getWSConnectionHandler({ wss: server.websocketServer, router: emptyRouter });
  server.get('/trpc', { websocket: true }, (socket, request) => {
    connect(socket, request.raw);
  });
  return server.listen({ host: '127.0.0.1', port: 0 });
}

const [databaseUrl, home] = process.argv.slice(2);
if (databaseUrl === undefined || home === undefined) throw new Error('usage: DATABASE_URL HOME');
process.once('disconnect', () => process.exit(0));
const controller = await startController(
  {
    databaseUrl,
    home,
    host: '127.0.0.1',
    port: 0,
    datacenter: 'bench',
    ladder: LADDER,
    heartbeatMs: HEARTBEAT_MS,
    retentionDays: 30,
    environmentLeaseMs: 60_000,
    isReadingAudited: false,
    firstToken: null,
    webhook: null,
    gateway: { url: null, hosts: null },
    settings: [],
    logLevel: 'silent',
    signIn: SIGN_IN_DEFAULTS,
    fairUse: FAIR_USE_CONFIG_DEFAULTS,
  },
  {
    clock: createBootClock(),
    ids: systemIds(),
    log: createLogger({ name: 'bench', level: 'silent' }),
  },
);
const servers: BenchServers = { controllerUrl: controller.url, emptyUrl: await startEmptyServer() };
process.send?.(servers);

let stopProfiler: (() => Promise<TimeByPart>) | undefined;
// Any message begins a profile, and the next one ends it; each is answered.
process.on('message', () => {
  void (async () => {
    const times = await stopProfiler?.();
    stopProfiler = times === undefined ? await startProfiler() : undefined;
    process.send?.(times ?? {});
  })();
});
