/** Puts a controller together from its parts, and takes it apart again in the opposite order. */
import { join } from 'node:path';
import { toleratedClockRatio, LeaseError, type Clock, type IdSource } from '@leasehold/keys-core';
import { createKeyService } from '@leasehold/keys-core/keys';
import {
  bootstrapCredentials, checkEpoch, checkReachable, chooseDrone, createLeaseStore,
  createTokenAuthority, hasAdminToken, listAudit, openStore, readDatabaseSettings, writeAudit,
  type Store,
} from '@leasehold/keys-core/store';
import type { Logger } from '@leasehold/service-kit';
import type { ApiServices } from '@leasehold/api';
import { createOpenConnections } from './access/open-connections.ts';
import { createTokenService } from './access/token-service.ts';
import { runInBackground } from './background.ts';
import { backgroundJobs } from './background-jobs.ts';
import type { ControllerConfig } from './config.ts';
import { checkDatabase } from './database-checks.ts';
import { createFleetService } from './fleet/fleet-service.ts';
import { createOutboxFeed } from './fleet/outbox-feed.ts';
import { createHttpServer } from './http/http-server.ts';
import { addGauges, createMetrics } from './metrics.ts';

export interface ControllerDeps {
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
}

/** A controller that answers. */
export interface Controller {
  readonly url: string;
  readonly store: Store;
  /** Stops accepting, lets calls under way finish for a moment, and closes everything. */
  close(): Promise<void>;
}

/** What a restart leaves calls under way before their connections are closed. */
const FINISH_MS = 250;

/** Starts a controller on a database whose migrations have been applied. */
export async function startController(
  config: Omit<ControllerConfig, 'databaseUrl'> & { readonly databaseUrl: string },
  deps: ControllerDeps,
): Promise<Controller> {
  const { log } = deps;
  const { registry, observer } = createMetrics();
  const store = openStore({
    databaseUrl: config.databaseUrl,
    datacenter: config.datacenter,
    clock: deps.clock,
    ids: deps.ids,
    renewalTimeoutMs: Math.floor((config.ladder.softAfterMs - config.ladder.renewAfterMs) / 3),
    quietAfterJumpMs: config.ladder.ttlMs,
    observer,
    onBackgroundError: (error) => {
      log.warn({ err: error }, 'database connection');
    },
  });
  try {
    await prepareDatabase(store, config, log);
    return await serve({ store, registry, config, deps });
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function prepareDatabase(
  store: Store,
  config: Omit<ControllerConfig, 'databaseUrl'>,
  log: Logger,
): Promise<void> {
  for (const warning of checkDatabase(await readDatabaseSettings(store.prisma))) log.warn(warning);
  const epoch = await checkEpoch(store.prisma, config.ladder.ttlMs);
  if (epoch.holdOffMs > 0) {
    log.warn({ holdOffMs: epoch.holdOffMs }, 'the database was restored or failed over: no new grants for now');
  }
  if (!(await hasAdminToken(store.prisma))) {
    const path = join(config.home, 'credentials.json');
    await bootstrapCredentials(store, path, { droneIds: [] });
    log.info({ path }, 'no administrator yet: first tokens written');
  }
}

interface Parts {
  readonly store: Store;
  readonly registry: ReturnType<typeof createMetrics>['registry'];
  readonly config: Omit<ControllerConfig, 'databaseUrl'>;
  readonly deps: ControllerDeps;
}

async function serve({ store, registry, config, deps }: Parts): Promise<Controller> {
  const { log } = deps;
  const { heartbeatMs, ladder } = config;
  const keys = createKeyService({
    store,
    leases: createLeaseStore(store),
    ladder,
    heartbeatMs,
    chooseDrone: (wanted) =>
      chooseDrone(store, {
        ...wanted,
        datacenter: config.datacenter,
        heartbeatMs,
        random: () => store.ids.random(),
      }),
  });
  const feed = createOutboxFeed(store, log);
  const tokens = createTokenAuthority(store);
  const connections = createOpenConnections(store, log);
  const services: ApiServices = {
    keys,
    fleet: createFleetService({ store, keys, feed, heartbeatMs }),
    tokens: createTokenService(store),
    audit: {
      list: (input) => listAudit(store.prisma, input),
      write: (entry) => writeAudit(store.prisma, entry),
    },
    datacenter: config.datacenter,
  };
  let isClosing = false;
  const server = await createHttpServer({
    services,
    tokens,
    connections,
    log,
    metrics: registry,
    checkReady: async () => {
      if (isClosing) throw new LeaseError('store.unavailable', 'The controller is stopping.');
      await checkReachable(store.prisma);
    },
  });
  addGauges(registry, {
    store,
    heartbeatMs,
    sessionCount: () => feed.droneCount,
    connectionCount: () => connections.count,
  });
  const stopJobs = runInBackground(
    backgroundJobs({ store, tokens, log, retentionDays: config.retentionDays, ladder }),
    log,
    () => store.ids.random(),
  );
  const close = async (): Promise<void> => {
    isClosing = true;
    await new Promise((resolve) => setTimeout(resolve, FINISH_MS));
    await server.close();
    await stopJobs();
    feed.close();
    connections.close();
    tokens.close();
    await store.close();
  };
  try {
    const url = await server.listen({ host: config.host, port: config.port });
    log.info({ url, ladder, toleratedClockRatio: toleratedClockRatio(ladder) }, 'controller answers');
    return { url, store, close };
  } catch (error) {
    await server.close();
    await stopJobs();
    feed.close();
    connections.close();
    tokens.close();
    throw listenError(error, config);
  }
}

function listenError(error: unknown, config: { host: string; port: number }): unknown {
  const { code } = error as NodeJS.ErrnoException;
  const where = `${config.host}:${String(config.port)}`;
  if (code === 'EADDRINUSE') {
    return new LeaseError('config.invalid', `${where} is in use: set LEASEHOLD_PORT to another port.`, { cause: error });
  }
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new LeaseError('config.invalid', `${where} cannot be listened on: check LEASEHOLD_HOST and LEASEHOLD_PORT.`, { cause: error });
  }
  return error;
}
