/** Puts a controller together from its parts, and takes it apart again in the opposite order. */
import { LeaseError, toleratedClockRatio } from '@leasehold/keys-core';
import { countDrones } from '@leasehold/keys-core/fleet';
import { countCrashLoops } from '@leasehold/keys-core/keys';
import { countFailingCallbacks, countWaiters, readPermitShares } from '@leasehold/keys-core/leases';
import { checkReachable, type Store } from '@leasehold/keys-core/postgres';
import { createStatsCounter } from '@leasehold/keys-core/stats';
import { listenProblem } from '@leasehold/service-kit';
import { createSources } from '@leasehold/service-kit/source-address';
import type { Registry } from 'prom-client';
import {
  backgroundJobs,
  createBacklogs,
  runInBackground,
  type Backlogs,
  type Job,
} from './background.ts';
import { examineDatabase, openControllerStore, type ControllerDeps } from './database.ts';
import { openFairUse } from './fair-use/fair-use.ts';
import { createHttpServer } from './http/http-server.ts';
import { addGauges, createMetrics } from './metrics.ts';
import { openDatacenters } from './peers/open-datacenters.ts';
import { createParts, type Config, type Parts, type Serving } from './services.ts';
import { createSignIn, type SignIn } from './sign-in/sign-in.ts';

/** A running controller. */
export interface Controller {
  readonly url: string;
  readonly store: Store;
  /** What `/metrics` shows. */
  readonly metrics: Registry;
  /** Rejects when it must end, with the reason. */
  readonly failed: Promise<never>;
  /** Stops accepting, lets calls under way finish for a moment, and closes everything. */
  close(): Promise<void>;
}

/** How long calls under way over WebSocket have before their connections are closed. */
const FINISH_MS = 250;
/** How long calls under way over HTTP have, such as one that waits for a key. */
const HTTP_FINISH_MS_MAX = 2_000;

const WRONG_SECRET =
  'a request has a wrong secret of the console: its address is that of its connection. Give controllers and ' +
  'consoles the same LEASEHOLD_CONSOLE_SECRET.';

/** Starts a controller on a database whose migrations have been applied. */
export async function startController(
  config: Config & { readonly databaseUrl: string },
  deps: ControllerDeps,
): Promise<Controller> {
  const { log } = deps;
  const metrics = createMetrics();
  const stats = createStatsCounter();
  const store = openControllerStore(config, deps, {
    registry: metrics.registry,
    observer: stats.observing(metrics.observer),
  });
  let signIn: SignIn | undefined;
  try {
    await examineDatabase(store, config, log);
    signIn = await createSignIn(store, { ...config.signIn, home: config.home }, log);
    const datacenters = await openDatacenters(config, { store, metrics: metrics.registry, log });
    const fairUse = openFairUse({ store, log, config: config.fairUse, metrics: metrics.registry });
    return await serve({ store, metrics, stats, signIn, datacenters, config, fairUse, log });
  } catch (error) {
    signIn?.authority.close();
    await store.close();
    throw error;
  }
}

async function serve(serving: Serving): Promise<Controller> {
  const { store, stats, config, log } = serving;
  const parts = createParts(serving);
  const { ladder } = config;
  let isClosing = false;
  const checkReady = async (): Promise<void> => {
    if (isClosing) throw new LeaseError('controller.stopping');
    await Promise.all([checkReachable(store.general), store.witness.look()]);
  };
  const server = await makeServer(serving, parts, checkReady).catch(async (error: unknown) => {
    await parts.close();
    throw error;
  });
  const backlogs = createBacklogs(store.clock);
  addAllGauges(serving, parts, backlogs);
  const stopJobs = runInBackground(jobsOf(serving, parts, backlogs), serving);
  const stop = async (): Promise<void> => {
    const cutOff = setTimeout(() => server.server.closeAllConnections(), HTTP_FINISH_MS_MAX);
    await server.close();
    clearTimeout(cutOff);
    await stopJobs();
    await parts.close();
    await Promise.all([stats.flush(store, { isLast: true }), parts.refusals.flush(store)]).catch(
      (error: unknown) => log.warn({ err: error }, 'the last statistics could not be written'),
    );
  };
  let url: string;
  try {
    url = await server.listen({ host: config.host, port: config.port });
  } catch (error) {
    await stop();
    throw listenError(error, config);
  }
  log.info({ url, ladder, toleratedClockRatio: toleratedClockRatio(ladder) }, 'controller answers');
  return {
    url,
    store,
    metrics: serving.metrics.registry,
    failed: serving.datacenters.failed,
    async close() {
      isClosing = true;
      await new Promise((resolve) => setTimeout(resolve, FINISH_MS));
      await stop();
      await store.close();
    },
  };
}

async function makeServer(
  { store, metrics, signIn, datacenters, config, fairUse, log }: Serving,
  { services, tokens, connections, isPressed }: Parts,
  checkReady: () => Promise<void>,
): ReturnType<typeof createHttpServer> {
  return createHttpServer({
    services,
    tokens,
    connections,
    isPressed,
    log,
    metrics: metrics.registry,
    ...fairUse,
    anonymousConnectionsMax: config.fairUse.anonymous.connections,
    clock: store.clock,
    checkReady,
    store,
    signIn,
    people: signIn.people,
    peers: datacenters.access,
    sources: createSources({
      trustedProxies: config.signIn.trustedProxies,
      consoleSecret: signIn.consoleSecret,
      onWrongSecret: () => log.warn({ part: 'console' }, WRONG_SECRET),
    }),
  });
}

function jobsOf(
  serving: Serving,
  { services, refusals, webhook, bulk, tokens, whileLeader }: Parts,
  backlogs: Backlogs,
): Job[] {
  const { signIn, datacenters, config } = serving;
  const { retentionDays, heartbeatMs } = config;
  return [
    ...backgroundJobs({
      ...serving,
      refusals,
      webhook,
      bulk: bulk.runner,
      health: services.stats,
      reservations: services.reservations,
      tokens,
      whileLeader,
      sessions: signIn.authority,
      retentionDays,
      heartbeatMs,
      backlogs,
    }),
    ...datacenters.jobs,
  ];
}

function addAllGauges({ store, metrics, config }: Serving, parts: Parts, backlogs: Backlogs): void {
  addGauges(metrics.registry, {
    drones: () => countDrones(store.general, config.heartbeatMs),
    waiters: () => countWaiters(store.general),
    permitShares: () => readPermitShares(store.general),
    failingCallbacks: () => countFailingCallbacks(store.general),
    crashLoops: async () => (await countCrashLoops(store.guests)).count,
    sessionCount: () => parts.feed.droneCount,
    connectionCount: () => parts.connections.count,
    leaseSessionCount: () => parts.revocations.sessionCount,
    events: parts.events,
    behindMs: () => backlogs.behindMs(),
  });
}

function listenError(error: unknown, config: { host: string; port: number }): unknown {
  const problem = listenProblem(error, config, 'LEASEHOLD_PORT');
  return problem === undefined
    ? error
    : new LeaseError('config.invalid', problem, { cause: error });
}
