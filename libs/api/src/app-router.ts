import {
  auditRouter,
  peopleRouter,
  sessionRouter,
  tokensRouter,
} from './routers/access-routers.ts';
import { eventsRouter, refusalsRouter } from './routers/events-router.ts';
import { backendsRouter, dronesRouter } from './routers/fleet-routers.ts';
import { keysRouter } from './routers/keys-router.ts';
import { environmentsRouter } from './routers/leases/environments-router.ts';
import { leasesRouter } from './routers/leases/leases-router.ts';
import {
  bulkRouter,
  datacentersRouter,
  holdOffRouter,
  settingsRouter,
  statsRouter,
  webhookRouter,
} from './routers/operations-routers.ts';
import { createPeerRouter, type CallProcedure } from './routers/peer-router.ts';
import { reservationsRouter } from './routers/reservations-router.ts';
import { searchRouter } from './routers/search-router.ts';
import { createCallerFactory, router } from './trpc.ts';

const routers = {
  keys: keysRouter,
  leases: leasesRouter,
  environments: environmentsRouter,
  backends: backendsRouter,
  datacenters: datacentersRouter,
  drones: dronesRouter,
  tokens: tokensRouter,
  events: eventsRouter,
  holdOff: holdOffRouter,
  audit: auditRouter,
  bulk: bulkRouter,
  people: peopleRouter,
  refusals: refusalsRouter,
  reservations: reservationsRouter,
  search: searchRouter,
  session: sessionRouter,
  settings: settingsRouter,
  stats: statsRouter,
  webhook: webhookRouter,
};

const callerOfRouters = createCallerFactory(router(routers));

/** Calls a procedure of `forwardable.ts`: its path has two parts, and it exists. */
const callProcedure: CallProcedure = async (ctx, path, input) => {
  const [group = '', name = ''] = path.split('.');
  const caller = callerOfRouters(ctx) as unknown as Readonly<
    Record<string, Readonly<Record<string, (input: unknown) => Promise<unknown>>>>
  >;
  return caller[group]?.[name]?.(input);
};

/** All procedures of the API. Clients are typed by it. */
export const appRouter = router({ ...routers, peer: createPeerRouter(callProcedure) });
export type AppRouter = typeof appRouter;
