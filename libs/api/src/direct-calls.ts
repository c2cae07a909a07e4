/**
 * The calls that are made most often, carried out without tRPC's machinery: a WebSocket hands them over when their turn
 * has come. They are the procedures of the router, with its resolvers, roles, inputs and errors, in tRPC's own frames,
 * so that no client has to know which way a call goes.
 */
import { HOT_CALLS, LeaseError } from '@leasehold/keys-core';
import { activeTracer } from '@leasehold/service-kit/tracing';
import { type Access, accessFor, assertOwnDrone, callerOf } from './access.ts';
import { KEPT_PROCEDURES, type KeptProcedure } from './app-router.ts';
import type { BoundedInput } from './bounded-input.ts';
import { actorOf, type ApiContext } from './context.ts';
import type { CalledContext } from './forwarding/elsewhere.ts';
import { noteRefused } from './refused-calls.ts';
import type { ProcedureMeta } from './trpc.ts';

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
