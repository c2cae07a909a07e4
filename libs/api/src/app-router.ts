import { roleAllows, type Role } from '@leasehold/keys-core';
import type { z } from 'zod';
import { assertRole } from './access.ts';
import type { BoundedInput } from './bounded-input.ts';
import type { CalledContext } from './forwarding/elsewhere.ts';
import {
  auditRouter,
  peopleRouter,
  sessionRouter,
  tokensRouter,
} from './routers/access-routers.ts';
import { eventsRouter, refusalsRouter, searchRouter } from './routers/events-routers.ts';
import { backendsRouter, dronesRouter } from './routers/fleet-routers.ts';
import { gatewayRouter } from './routers/gateway-router.ts';
import { keysRouter } from './routers/keys-router.ts';
import { environmentsRouter } from './routers/environment-routers.ts';
import { leasesRouter } from './routers/lease-routers.ts';
import {
  bulkRouter,
  datacentersRouter,
  holdOffRouter,
  settingsRouter,
  statsRouter,
  webhookRouter,
} from './routers/operations-routers.ts';
import {
  createPeerRouter,
  reservationsRouter,
  type CallProcedure,
} from './routers/reservation-routers.ts';
import { createCallerFactory, router, type ProcedureMeta } from './trpc.ts';

const routers = {
  keys: keysRouter,
  leases: leasesRouter,
  environments: environmentsRouter,
  backends: backendsRouter,
  datacenters: datacentersRouter,
  drones: dronesRouter,
  gateway: gatewayRouter,
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

/** Calls a procedure that `isForwardable` names: its path has two parts, and it exists. */
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

/** What a procedure of the router was declared with. */
export interface DeclaredProcedure {
  readonly type: 'query' | 'mutation' | 'subscription';
  readonly meta?: ProcedureMeta;
  readonly inputs: readonly z.ZodType[];
}

/** What tRPC keeps of a procedure. */
export interface KeptProcedure extends Omit<DeclaredProcedure, 'inputs'> {
  readonly inputs: readonly BoundedInput[];
  readonly resolver: (call: { readonly ctx: CalledContext; readonly input: unknown }) => unknown;
}

/** tRPC keeps procedures flat, by path; its type has them nested, as they were declared. */
export const KEPT_PROCEDURES = appRouter._def.procedures as unknown as Readonly<
  Record<string, { readonly _def: KeptProcedure }>
>;

/** All procedures, by path. */
export const PROCEDURES: ReadonlyMap<string, DeclaredProcedure> = new Map(
  Object.entries(KEPT_PROCEDURES).map(([path, { _def }]) => [
    path,
    { ..._def, inputs: _def.inputs.map(({ schema }) => schema) },
  ]),
);

/**
 * For what is large: it is refused before it is read. One of several that may be called is answered by its procedure.
 * @throws {LeaseError} `auth.forbidden` for a role that may call none of these procedures.
 */
export function assertMayCallOneOf(paths: readonly string[], role: Role): void {
  const needed = paths.map((path) => PROCEDURES.get(path)?.meta?.role);
  const [first] = needed;
  const isAllowed = needed.some((one) => one === undefined || roleAllows(role, one));
  if (first !== undefined && !isAllowed) assertRole({ role }, first);
}
