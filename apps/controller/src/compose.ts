/** Puts a controller together from its parts, and takes it apart again in the opposite order. */
import { hostname } from 'node:os';
import {
  describeError,
  type ApiServices,
  type EventService,
  type LeaseFace,
  type Readings,
} from '@leasehold/api';
import { LeaseError, toleratedClockRatio, type EventView } from '@leasehold/keys-core';
import {
  countAudit,
  createHoldOffService,
  createPeopleService,
  createTokenAuthority,
  createTokenService,
  listAudit,
  writeAudit,
} from '@leasehold/keys-core/access';
import { createBulk } from '@leasehold/keys-core/bulk';
import {
  changesOf,
  countEvents,
  createEventStream,
  createObserving,
  listEvents,
  type EventRow,
  type EventStream,
} from '@leasehold/keys-core/events';
import {
  countDrones,
  chooseDrone,
  createFleetService,
  createOutboxFeed,
} from '@leasehold/keys-core/fleet';
import { createGatewayService } from '@leasehold/keys-core/gateway';
import { createLeaseStore, type LeaseStore } from '@leasehold/keys-core/grants';
import { countCrashLoops, createKeyService, type KeyService } from '@leasehold/keys-core/keys';
import {
  countFailingCallbacks,
  countWaiters,
  createFreezeService,
  createLeaseOperations,
  createLeaseService,
  createLeasesTogether,
  createRevocationWatch,
  createWhileLeader,
  readPermitShares,
  type WhileLeader,
} from '@leasehold/keys-core/leases';
import { checkReachable, type Store, readNow } from '@leasehold/keys-core/postgres';
import { createSearchService } from '@leasehold/keys-core/search';
import {
  createStatsCounter,
  createStatsService,
  listRefusals,
  Refusals,
  type StatsCounter,
} from '@leasehold/keys-core/stats';
import { listenProblem, type Logger } from '@leasehold/service-kit';
import { createSources } from '@leasehold/service-kit/source-address';
import type { Registry } from 'prom-client';
import {
  backgroundJobs,
  createBacklogs,
  runInBackground,
  type Backlogs,
  type Job,
} from './background.ts';
import type { ControllerConfig } from './config.ts';
import { examineDatabase, openControllerStore, type ControllerDeps } from './database.ts';
import { openFairUse, type FairUseParts } from './fair-use/fair-use.ts';
import { overloaded } from './fair-use/pacing.ts';
import { createHttpServer, type SendingTimes } from './http/http-server.ts';
import { createOpenConnections } from './http/sockets/open-connections.ts';
import { addGauges, createMetrics, type ControllerMetrics } from './metrics.ts';
import { openDatacenters, type OpenDatacenters } from './peers/open-datacenters.ts';
import { createSignIn, type SignIn } from './sign-in/sign-in.ts';
import { createWebhook } from './webhook.ts';

export type Config = Omit<ControllerConfig, 'databaseUrl' | 'schema'>;

/** What the server is made of, and what is to be closed after it. */
export type Parts = ReturnType<typeof createParts>;

/** The longest time for which a job rests when the controller that does it has died. */
const JOB_LEASE_MS_MAX = 15_000;

function createParts(serving: Serving) {
  const { store, metrics, signIn, datacenters, config, log } = serving;
  const { heartbeatMs, ladder, datacenter } = config;
  const random = (): number => store.ids.random();
  const leases = createLeaseStore(store);
  const { revocations, ...faces } = createLeaseFaces({
    store,
    leases,
    metrics,
    log,
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
    store,
    keys,
    whileLeader,
    log,
    ...faces,
    codeOf: (error) => describeError(error).leaseholdCode,
  });
  const tokens = createTokenAuthority(store);
  const connections = createOpenConnections(store, log);
  const fleet = createFleetService({ store, keys, feed, heartbeatMs });
  const refusals = new Refusals(store.clock);
  const stats = createStatsService({ store, datacenter, heartbeatMs, events });
  const webhook = webhookOf(serving, stats);
  const isPressed = (): boolean => leases.isPressed();
  const made = { ...faces, keys, fleet, events, bulk, stats, webhook, refusals, isPressed };
  return {
    isPressed,
    services: servicesOf(serving, made),
    refusals,
    webhook,
    feed,
    tokens,
    connections,
    revocations,
    events,
    bulk,
    whileLeader,
    async close() {
      await bulk.runner.close();
      await events.close();
      for (const part of [feed, connections, tokens, signIn.authority]) part.close();
      await datacenters.close();
    },
  };
}

/** What {@link createParts} has made that procedures call. */
interface Made extends Pick<ApiServices, 'leases' | 'environments' | 'fleet' | 'stats'> {
  readonly isPressed: () => boolean;
  readonly keys: KeyService;
  readonly events: EventStream;
  readonly bulk: ReturnType<typeof createBulk>;
  readonly webhook: ReturnType<typeof webhookOf>;
  readonly refusals: Refusals;
}

function servicesOf(
  serving: Serving,
  { keys, fleet, leases, environments, events, bulk, stats, webhook, refusals, isPressed }: Made,
): ApiServices {
  const { store, datacenters, config, fairUse, log } = serving;
  const { heartbeatMs, datacenter } = config;
  const reservations = datacenters.reservationsOf(keys, fleet);
  return {
    keys,
    fleet,
    leases,
    environments,
    freezes: createFreezeService(store),
    reservations,
    gateway: {
      ...createGatewayService({ store, connect: (...asked) => reservations.connect(...asked) }),
      addresses: config.gateway,
    },
    tokens: createTokenService(store, fairUse.fairUse),
    audit: auditService(store),
    events: createEventService(events, serving),
    bulk: bulk.service,
    people: createPeopleService(store),
    search: createSearchService({
      store,
      heartbeatMs,
      onFailure: (error) => log.warn({ err: error }, 'a part of a search failed'),
    }),
    stats,
    webhook: webhook.service,
    refusals: refusalService(serving, refusals),
    witness: witnessService(store),
    holdOff: createHoldOffService(store),
    datacenter,
    readings: config.isReadingAudited ? createReadings(store.clock) : null,
    assertNotPressed: (role) => {
      if (!isPressed()) return;
      fairUse.onOverload(role);
      throw overloaded();
    },
    settings: config.settings,
    datacenters: datacenters.service,
    giveUp: datacenters.giveUp,
    now: () => readNow(store.reads),
    reportFailure: failureReporter(log),
  };
}

/** Who reads the output of a backend and pauses for longer begins another reading. */
const READING_REST_MS = 600_000;
const READINGS_MAX = 10_000;

function createReadings(clock: Store['clock']): Readings {
  const lastAtMs = new Map<string, number>();
  const nameOf = (principal: string, backendId: string): string => `${principal} ${backendId}`;
  return {
    isNew(principal, backendId) {
      const lastMs = lastAtMs.get(nameOf(principal, backendId)) ?? -Infinity;
      return clock.nowMs() - lastMs > READING_REST_MS;
    },
    note(principal, backendId) {
      const reading = nameOf(principal, backendId);
      // The newest come last, and the oldest is forgotten first.
      lastAtMs.delete(reading);
      lastAtMs.set(reading, clock.nowMs());
      const [oldest] = lastAtMs.keys();
      if (lastAtMs.size > READINGS_MAX && oldest !== undefined) lastAtMs.delete(oldest);
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
    store,
    stats,
    log,
    config: config.webhook,
    datacenter: config.datacenter,
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
    store,
    log,
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

interface Serving {
  readonly store: Store;
  readonly metrics: ControllerMetrics;
  readonly stats: StatsCounter;
  readonly signIn: SignIn;
  readonly datacenters: OpenDatacenters;
  readonly config: Config;
  readonly fairUse: FairUseParts;
  readonly log: Logger;
  readonly sendingTimes: SendingTimes | undefined;
}

/** The event stream of this controller and its history, in the form of the API. */
function createEventService(
  stream: EventStream,
  { store, log }: Pick<Serving, 'store' | 'log'>,
): EventService {
  const { datacenter } = store;
  const observing = createObserving({
    store,
    stream,
    onError: (error) => log.warn({ err: error }, 'holders could not be read; trying again'),
  });
  return {
    head: (limits) => stream.head(limits),
    async list(input, limits) {
      const { items, nextCursor } = await listEvents(store.reads, input, limits);
      return { items: items.map((event) => viewOf(event, datacenter)), nextCursor };
    },
    count: (input, limits) => countEvents(store.reads, input, limits),
    watch: async (request, signal) => views(await stream.open(request, signal), datacenter),
    async changes(request, signal) {
      const leaving = new AbortController();
      // What its reader reads once it is open misses nothing of a transaction that had begun before.
      const from = { ...request, isSettled: true };
      const events = await stream.open(from, AbortSignal.any([signal, leaving.signal]));
      return changesOf(events, { store, signal, leave: () => leaving.abort() });
    },
    observe: (resource, signal) => observing.observe(resource, signal),
  };
}

async function* views(
  events: AsyncIterable<EventRow>,
  datacenter: string,
): AsyncGenerator<EventView, void> {
  for await (const event of events) yield viewOf(event, datacenter);
}

function viewOf(event: EventRow, datacenter: string): EventView {
  return { ...event, at: new Date(event.at).toISOString(), datacenter };
}

/** The two faces of services over one store, and the one watch that tells the holders of both of revocations. */
function createLeaseFaces(deps: {
  readonly store: Store;
  readonly leases: LeaseStore;
  readonly metrics: ControllerMetrics;
  readonly log: Logger;
  /** How long an environment is leased if its holder names no duration, in milliseconds. */
  readonly environmentLeaseMs: number;
}) {
  const { store, leases, metrics, log, environmentLeaseMs } = deps;
  const revocations = createRevocationWatch(store, (error) =>
    log.warn({ err: error }, 'revocations could not be read; trying again'),
  );
  const face = (name: 'lease' | 'environment'): LeaseFace => ({
    ...createLeaseService({
      store,
      leases,
      face: name,
      ttlMsDefault: name === 'environment' ? environmentLeaseMs : undefined,
    }),
    ...createLeaseOperations({ store, face: name, revocations }),
  });
  const together = createLeasesTogether({ store });
  return {
    leases: { ...face('lease'), ...together },
    environments: countingRefusals(face('environment'), metrics),
    revocations,
  };
}

/** An environments face whose refusals are timed; the store reports how long grants are held. */
function countingRefusals(environments: LeaseFace, metrics: ControllerMetrics): LeaseFace {
  return {
    ...environments,
    async acquire(input, caller, life) {
      const startedAtMs = performance.now();
      const answer = await environments.acquire(input, caller, life);
      if (answer.outcome === 'held') {
        metrics.environmentDenied(input.action ?? '', performance.now() - startedAtMs);
      }
      return answer;
    },
  };
}

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
  deps: ControllerDeps & { readonly sendingTimes?: SendingTimes | undefined },
): Promise<Controller> {
  const { log, sendingTimes } = deps;
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
    const opened = { store, metrics, stats, signIn, datacenters, fairUse };
    return await serve({ ...opened, config, log, sendingTimes });
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
  { store, metrics, signIn, datacenters, config, fairUse, log, sendingTimes }: Serving,
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
    sendingTimes,
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
