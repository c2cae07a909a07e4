import { HOT_CALLS, LeaseError, type Role, roleAllows } from '@leasehold/keys-core';
import { activeTracer } from '@leasehold/service-kit/tracing';
import type { z } from 'zod';
import { type Access, accessFor, assertOwnDrone, assertRole, callerOf } from './access.ts';
import type { BoundedInput } from './bounded-input.ts';
import { actorOf, type ApiContext } from './context.ts';
import type { CalledContext } from './forwarding/elsewhere.ts';
import { environmentsRouter } from './routers/environment-routers.ts';
import { backendsRouter, dronesRouter } from './routers/fleet-routers.ts';
import { gatewayRouter } from './routers/gateway-router.ts';
import { keysRouter } from './routers/keys-router.ts';
import { leasesRouter } from './routers/lease-routers.ts';
import {
  auditRouter,
  bulkRouter,
  datacentersRouter,
  eventsRouter,
  holdOffRouter,
  peopleRouter,
  refusalsRouter,
  searchRouter,
  sessionRouter,
  settingsRouter,
  statsRouter,
  tokensRouter,
  webhookRouter,
} from './routers/operations-routers.ts';
import {
  type CallProcedure,
  createPeerRouter,
  reservationsRouter,
} from './routers/reservation-routers.ts';
import { createCallerFactory, type ProcedureMeta, router, noteRefused } from './trpc.ts';

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

/**
 * The calls that are made most often, carried out without tRPC's machinery: a WebSocket hands them over when their turn
 * has come. They are the procedures of the router, with its resolvers, roles, inputs and errors, in tRPC's own frames,
 * so that no client has to know which way a call goes.
 */
interface DirectCall extends ProcedureMeta {
  readonly input: BoundedInput;
  readonly run: KeptProcedure['resolver'];
}

const DIRECT_CALLS: ReadonlyMap<string, DirectCall> = new Map(
  HOT_CALLS.map((path) => [path, directCallOf(path)]),
);

function directCallOf(path: string): DirectCall {
  const { type, meta, inputs = [], resolver } = KEPT_PROCEDURES[path]?._def ?? {};
  const [input, ...others] = inputs;
  const isPlain = type === 'mutation' && others.length === 0;
  if (!isPlain || meta === undefined || input === undefined || resolver === undefined) {
    throw new Error(`${path} is no mutation with a role and one input`);
  }
  return { ...meta, input, run: resolver };
}

/** Whether {@link callDirectly} carries a call out: not while traces are sent, because tRPC's procedures make the spans. */
export function isDirectCall(path: unknown): path is string {
  return typeof path === 'string' && DIRECT_CALLS.has(path) && activeTracer() === undefined;
}

/**
 * Carries out a call of {@link isDirectCall}, as tRPC would.
 * @throws what its procedure throws: {@link LeaseError}, `ZodError` for its input, or a failure.
 */
export async function callDirectly(ctx: ApiContext, path: string, sent: unknown): Promise<unknown> {
  const call = DIRECT_CALLS.get(path);
  if (call === undefined) throw new LeaseError('request.not_found');
  const rawInput = () => Promise.resolve(sent);
  let access: Access;
  try {
    access = accessFor(call.role, ctx);
  } catch (error) {
    await noteRefused(ctx, { path, rawInput }, error);
    throw error;
  }
  if (call.role === 'drone') assertOwnDrone(access, sent);
  const checked = call.input.parse(sent);
  const input: unknown = checked instanceof Promise ? await checked : checked;
  const called: CalledContext = {
    ...ctx,
    access,
    caller: callerOf(access),
    actor: actorOf({ access, source: ctx.source }),
    procedure: path,
    rawInput,
  };
  return call.run({ ctx: called, input });
}
