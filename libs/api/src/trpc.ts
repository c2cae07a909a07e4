import { isPeriodicCall, LeaseError, type Resource, type Role } from '@leasehold/keys-core';
import {
  activeTracer,
  contextFrom,
  isWithinSpan,
  SpanKind,
  traced,
} from '@leasehold/service-kit/tracing';
import { initTRPC } from '@trpc/server';
import {
  type Access,
  accessFor,
  assertOwnDrone,
  assertUnlimited,
  callerOf,
  withoutStrangers,
} from './access.ts';
import { bounded, type BoundedInput } from './bounded-input.ts';
import { actorOf, type ApiContext } from './context.ts';
import { connectInputSchema } from './contract/keys.ts';
import {
  acquireAllInputSchema,
  acquireEnvironmentInputSchema,
  acquireInputSchema,
  acquireItemSchema,
  acquireManyInputSchema,
  tryAcquireInputSchema,
} from './contract/leases.ts';
import { describeError, errorData, toTrpcError } from './error-map.ts';
import { isSentOn } from './forwarding/elsewhere.ts';

/**
 * Connects and acquires that a role does not allow, or that are too many, are refused before their input is read. What
 * they ask for is read for the list of refusals alone.
 */
interface Asked {
  readonly resource: Resource;
  /** Null for a key. */
  readonly holder: string | null;
}

/** By procedure: what an input asks for. @throws {ZodError} for one that is not valid. */
const ASKED: Readonly<Record<string, (input: unknown) => Promise<Asked>>> = {
  'keys.connect': reading(bounded(connectInputSchema), ({ key }) =>
    askedOf('key', key?.namespace ?? '', key?.name ?? '', null),
  ),
  'leases.acquire': reading(bounded(acquireInputSchema), ({ namespace, key, holder }) =>
    askedOf('lease', namespace, key, holder),
  ),
  // The first one stands for all: nobody fills the list with one call.
  'leases.acquireAll': reading(bounded(acquireAllInputSchema), ({ scopes: [first], holder }) =>
    askedOf('lease', first?.namespace ?? '', first?.key ?? '', holder),
  ),
  'leases.acquireMany': reading(bounded(acquireManyInputSchema), ({ items: [first] }) => {
    const { namespace, key, holder } = acquireItemSchema.parse(first);
    return askedOf('lease', namespace, key, holder);
  }),
  'environments.tryAcquire': reading(bounded(tryAcquireInputSchema), ofEnvironment),
  'environments.acquire': reading(bounded(acquireEnvironmentInputSchema), ofEnvironment),
};

/**
 * Notes a refusal of a caller that is known, if it asks for something. Who has no token is nobody, and leaves nothing.
 * Never throws: an input that is not valid asks for nothing.
 */
export async function noteRefused(
  { access, services }: Pick<ApiContext, 'access' | 'services'>,
  { path, rawInput }: { readonly path: string; readonly rawInput: () => Promise<unknown> },
  error: unknown,
): Promise<void> {
  const read = ASKED[path];
  if (access === undefined || read === undefined || !(error instanceof LeaseError)) return;
  let asked: Asked;
  try {
    asked = await read(await rawInput());
  } catch {
    return;
  }
  const { actor, principal } = callerOf(access);
  const { code, message: reason } = error;
  const { resource, holder } = asked;
  const refusal = { ...resource, holder, code, reason, actor, principal };
  services.refusals.note(withoutStrangers(refusal, access));
}

function reading<Input extends BoundedInput>(
  input: Input,
  askedIn: (given: Input['_output']) => Asked,
): (given: unknown) => Promise<Asked> {
  return async (given) => askedIn(await input.parse(given));
}

function askedOf(
  face: Resource['face'],
  namespace: string,
  name: string,
  holder: string | null,
): Asked {
  return { resource: { face, namespace, name }, holder };
}

function ofEnvironment({
  environment: { namespace, name },
  holder,
}: {
  readonly environment: { readonly namespace: string; readonly name: string };
  readonly holder: string;
}): Asked {
  return askedOf('environment', namespace, name, holder);
}

/** Which role a procedure needs. The role matrix is generated from this. */
export interface ProcedureMeta {
  readonly role: Role;
}

const t = initTRPC
  .context<ApiContext>()
  .meta<ProcedureMeta>()
  .create({
    isDev: false,
    // A stream over HTTP without news sends pings, and notices when its caller is gone.
    sse: {
      ping: { enabled: true, intervalMs: 3_000 },
      client: { reconnectAfterInactivityMs: 10_000 },
    },
    errorFormatter: ({ shape, error }) => {
      const answer = describeError(error);
      return { ...shape, message: answer.message, data: errorData(answer) };
    },
  });

export const { router, createCallerFactory } = t;

/**
 * The only way to declare a procedure: with the role that it needs. What it throws becomes an error
 * of the registry; a query waits for its turn, and a subscription counts while it is open. One
 * middleware does it all, because each one costs every call some microseconds.
 */
function procedureFor(role: Role) {
  return t.procedure.meta({ role }).use(({ ctx, path, type, signal, getRawInput, next }) =>
    inSpan(path, ctx, async () => {
      const itsTurn = ctx.turn?.();
      if (itsTurn !== undefined) await itsTurn;
      const access = await allowed(role, ctx, { path, rawInput: getRawInput });
      const caller = callerOf(access);
      const actor = actorOf({ access, source: ctx.source });
      const called = { access, caller, actor, procedure: path, rawInput: getRawInput };
      const run = () => next({ ctx: called });
      if (type === 'mutation' || ctx.use === undefined) return answered(await run());
      const { use } = ctx;
      if (type === 'query') {
        const kind = await readKind(ctx, getRawInput);
        const reading = use.read(unlessGone(signal, run), kind).catch((error: unknown) => {
          throw toTrpcError(error);
        });
        return answered(await reading);
      }
      const leave = coded(() => use.openStream());
      const result = await run();
      if (!result.ok) leave();
      const { data, ...rest } = answered(result);
      // A stream that nobody ever reads from ends with its signal, also if that has ended while the stream was opened.
      signal?.addEventListener('abort', leave, { once: true });
      if (signal?.aborted === true) leave();
      return { ...rest, data: untilOver(data as AsyncIterable<unknown>, leave) };
    }),
  );
}

/** Whether another datacenter carries a read out. What an input that is not valid names is refused later. */
async function readKind(
  ctx: ApiContext,
  rawInput: () => Promise<unknown>,
): Promise<'asked' | 'elsewhere'> {
  if (ctx.services.datacenters.peers.length === 0) return 'asked';
  const input = await rawInput().catch(() => undefined);
  const { datacenter } = (input ?? {}) as { readonly datacenter?: unknown };
  return typeof datacenter === 'string' && isSentOn(ctx, datacenter) ? 'elsewhere' : 'asked';
}

/** @throws {TRPCError} for who may not call this, once it is noted what was asked for. */
async function allowed(
  role: Role,
  ctx: ApiContext,
  call: Parameters<typeof noteRefused>[1],
): Promise<Access> {
  try {
    return accessFor(role, ctx);
  } catch (error) {
    await noteRefused(ctx, call, error);
    throw toTrpcError(error);
  }
}

/** Does not begin a call whose caller left while it waited for its turn. */
function unlessGone<T>(signal: AbortSignal | undefined, run: () => T): () => T {
  return () => {
    signal?.throwIfAborted();
    return run();
  };
}

/** @throws {TRPCError} for what the procedure has thrown. */
function answered<Result extends { readonly ok: boolean }>(
  result: Result,
): Extract<Result, { readonly ok: true }> {
  if (!result.ok) throw toTrpcError((result as { readonly error?: unknown }).error);
  return result as Extract<Result, { readonly ok: true }>;
}

/** What `run` throws becomes an error of the registry. */
function coded<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw toTrpcError(error);
  }
}

async function* untilOver<T>(events: AsyncIterable<T>, leave: () => void): AsyncGenerator<T, void> {
  try {
    yield* events;
  } finally {
    leave();
  }
}

export const viewerProcedure = procedureFor('viewer');
export const clientProcedure = procedureFor('client');
export const operatorProcedure = procedureFor('operator');

/**
 * For what is counted over all namespaces, or names programs of all: not for a token that is
 * limited to some.
 */
export const unlimitedViewerProcedure = viewerProcedure.use(({ ctx, next }) => {
  assertUnlimited(ctx.access);
  return next();
});

/** Tokens are beyond every namespace, so an administrator who is limited to some may not manage them. */
export const adminProcedure = procedureFor('admin').use(({ ctx, next }) => {
  assertUnlimited(ctx.access);
  return next();
});

/** An operator's act on a drone concerns whatever runs there, in every namespace. */
export const fleetOperatorProcedure = operatorProcedure.use(({ ctx, next }) => {
  assertUnlimited(ctx.access);
  return next();
});

/** Controllers of other datacenters. */
export const peerProcedure = procedureFor('peer');

/** Gateways. */
export const gatewayProcedure = procedureFor('gateway');

/** A drone's token acts for its own drone id alone. */
export const droneProcedure = procedureFor('drone').use(async ({ ctx, getRawInput, next }) => {
  assertOwnDrone(ctx.access, await getRawInput());
  return next();
});

// The span of a procedure: a part of its caller's trace, or the first span of a new one.

/** Runs a procedure, in a span if this controller sends traces. */
function inSpan<Result>(
  path: string,
  { trace, services, access }: Pick<ApiContext, 'trace' | 'services' | 'access'>,
  run: () => Promise<Result>,
): Promise<Result> {
  const tracer = activeTracer();
  if (tracer === undefined) return run();
  // Over HTTP the trace is in the headers; a message over WebSocket is handed over within it.
  if (trace === undefined && !isWithinSpan() && isPeriodicCall(path)) return run();
  return traced(
    tracer,
    {
      name: path,
      kind: SpanKind.SERVER,
      attributes: {
        'rpc.system.name': 'trpc',
        'rpc.method': path,
        'leasehold.datacenter': services.datacenter,
        ...(access === undefined ? {} : { 'leasehold.role': access.role }),
      },
      parent: trace === undefined ? undefined : contextFrom(trace),
    },
    run,
  );
}
