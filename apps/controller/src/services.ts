/** The services of a controller, and what they are made of. */
import { hostname } from 'node:os';
import { describeError, type ApiServices } from '@leasehold/api';
import {
  createHoldOffService,
  createPeopleService,
  createTokenAuthority,
  createTokenService,
  countAudit,
  listAudit,
  writeAudit,
} from '@leasehold/keys-core/access';
import { createBulk } from '@leasehold/keys-core/bulk';
import { createEventStream } from '@leasehold/keys-core/events';
import { chooseDrone, createFleetService, createOutboxFeed } from '@leasehold/keys-core/fleet';
import { createLeaseStore } from '@leasehold/keys-core/grants';
import { createKeyService } from '@leasehold/keys-core/keys';
import { createWhileLeader, type WhileLeader } from '@leasehold/keys-core/leases';
import { readNow, type Store } from '@leasehold/keys-core/postgres';
import { createSearchService } from '@leasehold/keys-core/search';
import {
  createStatsService,
  listRefusals,
  Refusals,
  type StatsCounter,
} from '@leasehold/keys-core/stats';
import type { Logger } from '@leasehold/service-kit';
import { createOpenConnections } from './access/open-connections.ts';
import type { ControllerConfig } from './config.ts';
import { createEventService } from './events/event-service.ts';
import type { FairUseParts } from './fair-use/open-fair-use.ts';
import { createLeaseFaces } from './leases/lease-faces.ts';
import type { ControllerMetrics } from './metrics.ts';
import type { OpenDatacenters } from './peers/open-datacenters.ts';
import type { SignIn } from './sign-in/sign-in.ts';
import { createWebhook } from './webhook/webhook.ts';

export type Config = Omit<ControllerConfig, 'databaseUrl' | 'schema'>;

/** What the server is made of, and what is to be closed after it. */
export type Parts = ReturnType<typeof createParts>;

/** The longest time for which a job rests when the controller that does it has died. */
const JOB_LEASE_MS_MAX = 15_000;

export function createParts(serving: Serving) {
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
    onError: (error) => log.warn({ err: error }, 'events could not be read; trying again'),
  });
  const feed = createOutboxFeed(store, log);
  const whileLeader = leaderOf(serving);
  const bulk = createBulk({
    ...{ store, keys, whileLeader, log },
    ...faces,
    codeOf: (error) => describeError(error).leaseholdCode,
  });
  const tokens = createTokenAuthority(store);
  const connections = createOpenConnections(store, log);
  const fleet = createFleetService({ store, keys, feed, heartbeatMs });
  const refusals = new Refusals(store.clock);
  const stats = createStatsService({ store, datacenter, heartbeatMs, events });
  const webhook = webhookOf(serving, stats);
  const services: ApiServices = {
    ...{ keys, fleet },
    reservations: datacenters.reservationsOf(keys, fleet),
    ...faces,
    tokens: createTokenService(store, fairUse.fairUse),
    audit: auditService(store),
    events: createEventService(events, store),
    bulk: bulk.service,
    people: createPeopleService(store),
    search: createSearchService({
      ...{ store, heartbeatMs },
      onFailure: (error) => log.warn({ err: error }, 'a part of a search failed'),
    }),
    ...{ stats, webhook: webhook.service },
    refusals: refusalService(serving, refusals),
    witness: witnessService(store),
    holdOff: createHoldOffService(store),
    ...{ datacenter, isReadingAudited: config.isReadingAudited, settings: config.settings },
    datacenters: datacenters.service,
    giveUp: datacenters.giveUp,
    now: () => readNow(store.reads),
    reportFailure: failureReporter(log),
  };
  return {
    isPressed: () => leases.isPressed(),
    ...{ services, refusals, webhook, feed, tokens, connections, revocations },
    ...{ events, bulk, whileLeader },
    async close() {
      await bulk.runner.close();
      await events.close();
      for (const part of [feed, connections, tokens, signIn.authority]) part.close();
      await datacenters.close();
    },
  };
}

function auditService({ reads, general }: Store): ApiServices['audit'] {
  return {
    list: (input) => listAudit(reads, input),
    count: (input) => countAudit(reads, input),
    write: (entry) => writeAudit(general, entry),
  };
}

function webhookOf({ store, config, metrics, log }: Serving, stats: ApiServices['stats']) {
  return createWebhook({
    ...{ store, stats, log, config: config.webhook, datacenter: config.datacenter },
    onOutcome: (outcome) => metrics.webhook(outcome),
  });
}

function refusalService(
  { store, metrics }: Pick<Serving, 'store' | 'metrics'>,
  refusals: Refusals,
): ApiServices['refusals'] {
  return {
    note(refusal) {
      refusals.note(refusal);
      metrics.refused(refusal.face, refusal.code);
    },
    list: (input, limits) => listRefusals(store, input, limits),
  };
}

function witnessService({ witness }: Store): ApiServices['witness'] {
  return { told: () => witness.stamp(), consider: (told) => witness.consider(told) };
}

function leaderOf({ store, config, log }: Serving): WhileLeader {
  const id = store.ids.uuid().slice(0, 8);
  return createWhileLeader({
    ...{ store, log },
    holder: `controller ${hostname()}:${String(process.pid)} ${id}`,
    // Not longer than a key's: a hold-off lasts as long as the longest lease.
    ttlMs: Math.min(JOB_LEASE_MS_MAX, config.ladder.ttlMs),
  });
}

function failureReporter(log: Logger): ApiServices['reportFailure'] {
  return (error, call) => {
    const { incidentId, leaseholdCode } = describeError(error);
    log.error({ ...call, incidentId, leaseholdCode, err: error }, 'call failed');
  };
}

export interface Serving {
  readonly store: Store;
  readonly metrics: ControllerMetrics;
  readonly stats: StatsCounter;
  readonly signIn: SignIn;
  readonly datacenters: OpenDatacenters;
  readonly config: Config;
  readonly fairUse: FairUseParts;
  readonly log: Logger;
}
