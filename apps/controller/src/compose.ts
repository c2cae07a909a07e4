/** Puts a controller together from its parts, and takes it apart again in the opposite order. */
import { toleratedClockRatio, LeaseError } from '@leasehold/keys-core';
import { createKeyService } from '@leasehold/keys-core/keys';
import type { RevocationWatch } from '@leasehold/keys-core/leases';
import { checkReachable, readNow, type Store } from '@leasehold/keys-core/postgres';
import {
  chooseDrone,
  createFleetService,
  createOutboxFeed,
  type OutboxFeed,
} from '@leasehold/keys-core/fleet';
import { createEventStream, type EventStream } from '@leasehold/keys-core/events';
import { createLeaseStore } from '@leasehold/keys-core/grants';
import {
  createTokenAuthority,
  listAudit,
  writeAudit,
  type TokenAuthority,
  createTokenService,
  createHoldOffService,
  createPeopleService,
} from '@leasehold/keys-core/access';
import type { Logger } from '@leasehold/service-kit';
import { describeError, type ApiServices } from '@leasehold/api';
import { createOpenConnections, type OpenConnections } from './access/open-connections.ts';
import { runInBackground, type Job } from './background.ts';
import { backgroundJobs } from './background-jobs.ts';
import { createBulk, type Bulk } from '@leasehold/keys-core/bulk';
import type { ControllerConfig } from './config.ts';
import { addEventGauges } from './events/event-gauges.ts';
import { createEventService } from './events/event-service.ts';
import { createHttpServer } from './http/http-server.ts';
import { openFairUse, type FairUseParts } from './fair-use/open-fair-use.ts';
import { createLeaseFaces } from './leases/lease-faces.ts';
import { addGauges, createMetrics, type ControllerMetrics } from './metrics.ts';
import {
  examineDatabase,
  openControllerStore,
  type ControllerDeps,
} from './open-controller-store.ts';
import { openDatacenters, type OpenDatacenters } from './peers/open-datacenters.ts';
import {
  createStatsCounter,
  type StatsCounter,
  createStatsService,
} from '@leasehold/keys-core/stats';
import { createSignIn, type ControllerSignIn } from './sign-in/sign-in.ts';
import { createSourceAddress } from './http/source-address.ts';

export type { ControllerDeps };

/** A controller that answers. */
export interface Controller {
  readonly url: string;
  readonly store: Store;
  /** Stops accepting, lets calls under way finish for a moment, and closes everything. */
  close(): Promise<void>;
}

/** What calls under way over WebSocket are left before their connections are closed. */
const FINISH_MS = 250;
/** What calls under way over HTTP are left, such as one that waits for a key. */
const HTTP_FINISH_MS_MAX = 2_000;

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
  let signIn: ControllerSignIn | undefined;
  try {
    await examineDatabase(store, config, log);
    signIn = await createSignIn(store, { ...config.signIn, home: config.home }, log);
    const datacenters = await openDatacenters(config, { store, metrics: metrics.registry, log });
    const fairUse = openFairUse({
      ...{ store, log },
      config: config.fairUse,
      metrics: metrics.registry,
    });
    return await serve({ store, metrics, stats, signIn, datacenters, config, fairUse, log });
  } catch (error) {
    signIn?.authority.close();
    await store.close();
    throw error;
  }
}

type Config = Omit<ControllerConfig, 'databaseUrl' | 'schema'>;

/** What the server is made of, and what is to be closed after it. */
interface Parts {
  readonly services: ApiServices;
  readonly feed: OutboxFeed;
  readonly tokens: TokenAuthority;
  readonly connections: OpenConnections;
  readonly revocations: RevocationWatch;
  readonly events: EventStream;
  readonly bulk: Bulk;
  close(): Promise<void>;
}

function createParts(serving: Serving): Parts {
  const { store, metrics, signIn, datacenters, config, fairUse, log } = serving;
  const { heartbeatMs, ladder, datacenter } = config;
  const random = (): number => store.ids.random();
  const leases = createLeaseStore(store);
  const { revocations, ...faces } = createLeaseFaces({
    ...{ store, leases, metrics, log },
    environmentLeaseMs: config.environmentLeaseMs,
  });
  const keys = createKeyService({
    store,
    leases,
    ladder,
    heartbeatMs,
    chooseDrone: (wanted) => chooseDrone(store, { ...wanted, datacenter, heartbeatMs, random }),
  });
  const events = createEventStream({
    store,
    onError: (error) => {
      log.warn({ err: error }, 'events could not be read; trying again');
    },
  });
  const feed = createOutboxFeed(store, log);
  const bulk = createBulk({
    ...{ store, keys, log },
    ...faces,
    codeOf: (error) => describeError(error).leaseholdCode,
  });
  const tokens = createTokenAuthority(store);
  const connections = createOpenConnections(store, log);
  return {
    services: {
      keys,
      reservations: datacenters.reservationsOf(keys),
      ...faces,
      fleet: createFleetService({ store, keys, feed, heartbeatMs }),
      tokens: createTokenService(store, fairUse.fairUse),
      audit: {
        list: (input) => listAudit(store.reads, input),
        write: (entry) => writeAudit(store.prisma, entry),
      },
      events: createEventService(events, store),
      bulk: bulk.service,
      people: createPeopleService(store),
      stats: createStatsService({ store, datacenter, heartbeatMs }),
      witness: {
        told: () => store.witness.stamp(),
        consider: (told) => store.witness.consider(told),
      },
      holdOff: createHoldOffService(store),
      datacenter,
      datacenters: datacenters.service,
      now: () => readNow(store.reads),
      reportFailure: failureReporter(log),
    },
    feed,
    tokens,
    connections,
    revocations,
    events,
    bulk,
    async close() {
      await bulk.runner.close();
      await events.close();
      for (const part of [feed, connections, tokens, signIn.authority]) part.close();
      await datacenters.close();
    },
  };
}

function failureReporter(log: Logger): ApiServices['reportFailure'] {
  return (error, path) => {
    const { incidentId, leaseholdCode } = describeError(error);
    log.error({ incidentId, path, leaseholdCode, err: error }, 'call failed');
  };
}

interface Serving {
  readonly store: Store;
  readonly metrics: ControllerMetrics;
  readonly stats: StatsCounter;
  readonly signIn: ControllerSignIn;
  readonly datacenters: OpenDatacenters;
  readonly config: Config;
  readonly fairUse: FairUseParts;
  readonly log: Logger;
}

async function serve(serving: Serving): Promise<Controller> {
  const { store, stats, config, log } = serving;
  const parts = createParts(serving);
  const { ladder } = config;
  let isClosing = false;
  const checkReady = async (): Promise<void> => {
    if (isClosing) throw new LeaseError('controller.stopping');
    await checkReachable(store.prisma);
  };
  const server = await makeServer(serving, parts, checkReady).catch(async (error: unknown) => {
    await parts.close();
    throw error;
  });
  addAllGauges(serving, parts);
  const stopJobs = runInBackground(jobsOf(serving, parts), log, () => store.ids.random());
  const stop = async (): Promise<void> => {
    const cutOff = setTimeout(() => {
      server.server.closeAllConnections();
    }, HTTP_FINISH_MS_MAX);
    await server.close();
    clearTimeout(cutOff);
    await stopJobs();
    await parts.close();
    await stats.flush(store).catch((error: unknown) => {
      log.warn({ err: error }, 'the last statistics could not be written');
    });
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
  { services, tokens, connections }: Parts,
  checkReady: () => Promise<void>,
): ReturnType<typeof createHttpServer> {
  return createHttpServer({
    services,
    tokens,
    connections,
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
    sourceOf: createSourceAddress(config.signIn.trustedProxies),
  });
}

function jobsOf(serving: Serving, { bulk, tokens }: Parts): Job[] {
  const { signIn, datacenters, config } = serving;
  const { retentionDays } = config;
  return [
    ...backgroundJobs({
      ...serving,
      bulk: bulk.runner,
      tokens,
      sessions: signIn.authority,
      retentionDays,
    }),
    ...datacenters.jobs,
  ];
}

function addAllGauges({ store, metrics, config }: Serving, parts: Parts): void {
  addGauges(metrics.registry, {
    store,
    heartbeatMs: config.heartbeatMs,
    sessionCount: () => parts.feed.droneCount,
    connectionCount: () => parts.connections.count,
    leaseSessionCount: () => parts.revocations.sessionCount,
  });
  addEventGauges(metrics.registry, parts.events);
}

function listenError(error: unknown, config: { host: string; port: number }): unknown {
  const { code } = error as NodeJS.ErrnoException;
  const where = `${config.host}:${String(config.port)}`;
  if (code === 'EADDRINUSE') {
    return new LeaseError(
      'config.invalid',
      `${where} is in use: set LEASEHOLD_PORT to another port.`,
      { cause: error },
    );
  }
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new LeaseError(
      'config.invalid',
      `${where} cannot be listened on: check LEASEHOLD_HOST and LEASEHOLD_PORT.`,
      { cause: error },
    );
  }
  return error;
}
