/**
 * The calls that are made most often, carried out without tRPC's machinery: a WebSocket hands them over when their turn
 * has come. They are the procedures of the router, with its resolvers, roles, inputs and errors, in tRPC's own frames,
 * so that no client has to know which way a call goes.
 */
import { isHotCall, LeaseError } from '@leasehold/keys-core';
import { activeTracer } from '@leasehold/service-kit/tracing';
import { accessFor, assertOwnDrone, callerOf } from './access.ts';
import { appRouter } from './app-router.ts';
import type { BoundedInput } from './bounded-input.ts';
import { actorOf, type ApiContext } from './context.ts';
import type { CalledContext } from './forwarding/elsewhere.ts';
import type { ProcedureMeta } from './trpc.ts';

/** What tRPC keeps of a procedure. */
interface Declared {
  readonly type: 'query' | 'mutation' | 'subscription';
  readonly meta?: ProcedureMeta;
  readonly inputs: readonly BoundedInput[];
  readonly resolver: DirectCall['run'];
}

interface DirectCall extends ProcedureMeta {
  readonly input: BoundedInput;
  readonly run: (call: { readonly ctx: CalledContext; readonly input: unknown }) => unknown;
}

const DIRECT_CALLS: ReadonlyMap<string, DirectCall> = new Map(
  Object.entries(
    appRouter._def.procedures as unknown as Record<string, { readonly _def: Declared }>,
  ).flatMap(([path, { _def }]) => (isHotCall(path) ? [[path, directCallOf(path, _def)]] : [])),
);

function directCallOf(path: string, { type, meta, inputs, resolver }: Declared): DirectCall {
  const [input, ...others] = inputs;
  if (type !== 'mutation' || meta === undefined || input === undefined || others.length > 0) {
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
  const access = accessFor(call.role, ctx);
  if (call.role === 'drone') assertOwnDrone(access, sent);
  const checked = call.input.parse(sent);
  const input: unknown = checked instanceof Promise ? await checked : checked;
  const called: CalledContext = {
    ...ctx,
    access,
    caller: callerOf(access),
    actor: actorOf({ access, source: ctx.source }),
    procedure: path,
    rawInput: () => Promise.resolve(sent),
  };
  return call.run({ ctx: called, input });
}
