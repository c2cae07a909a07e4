import { auditRouter } from './routers/access/audit-router.ts';
import { backendsRouter } from './routers/backends-router.ts';
import { bulkRouter } from './routers/bulk-router.ts';
import { datacentersRouter } from './routers/datacenters-router.ts';
import { dronesRouter } from './routers/drones-router.ts';
import { environmentsRouter } from './routers/leases/environments-router.ts';
import { eventsRouter } from './routers/events-router.ts';
import { holdOffRouter } from './routers/hold-off-router.ts';
import { keysRouter } from './routers/keys-router.ts';
import { leasesRouter } from './routers/leases/leases-router.ts';
import { createPeerRouter, type CallProcedure } from './routers/peer-router.ts';
import { peopleRouter } from './routers/access/people-router.ts';
import { reservationsRouter } from './routers/reservations-router.ts';
import { sessionRouter } from './routers/access/session-router.ts';
import { statsRouter } from './routers/stats-router.ts';
import { tokensRouter } from './routers/access/tokens-router.ts';
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
  reservations: reservationsRouter,
  session: sessionRouter,
  stats: statsRouter,
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
