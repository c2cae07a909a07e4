import { LeaseError } from '@leasehold/keys-core';
import type { z } from 'zod';
import { assertMayHold } from '../access.ts';
import { bounded } from '../bounded-input.ts';
import type { ApiServices } from '../context.ts';
import {
  acquireAllInputSchema,
  acquireInputSchema,
  acquireItemSchema,
  acquireManyInputSchema,
  declaredInputSchema,
  declareInputSchema,
  downgradeInputSchema,
  failingCallbacksInputSchema,
  leaseAtInputSchema,
  leaseContentionInputSchema,
  leaseCountInputSchema,
  leaseListInputSchema,
  leaseNameSchema,
  leasePageInputSchema,
  leaseSessionInputSchema,
  leaseTreeInputSchema,
  mostWaitedInputSchema,
  leaseWhyInputSchema,
  releaseItemSchema,
  releaseManyInputSchema,
  setPermitsInputSchema,
} from '../contract/leases.ts';
import { counted, listed, treeAt } from '../forwarding/across-datacenters.ts';
import {
  at,
  isElsewhere,
  isSentOn,
  placed,
  sendOn,
  withoutDatacenter,
  type CalledContext,
} from '../forwarding/elsewhere.ts';
import { clientProcedure, operatorProcedure, router, viewerProcedure } from '../trpc.ts';
import {
  acquiring,
  callOf,
  failedItem,
  heldCalls,
  oneByOne,
  release,
  renewableActs,
  startWaiting,
  waitingLife,
  type FailedItem,
} from './lease-calls.ts';
import { askedFor, bytesOfEvent, bytesOfGrant, refused, refusing, writing } from './recording.ts';

/** What holders call: acquire, renew, release, give up, and receive notices of revocations. */
const holding = {
  acquire: clientProcedure.input(bounded(acquireInputSchema)).mutation(({ ctx, input }) => {
    const { witness: told, ...asked } = input;
    return refusing(
      () => ({
        ctx,
        ...askedFor('lease', { ...input, name: input.key }),
        idempotencyKey: input.idempotencyKey,
        refuse: (error) => acquiring(ctx, told, () => refuse(ctx, asked, error)),
      }),
      async () => {
        assertMayHold(ctx.access, input.namespace);
        const before = await refusedBefore(ctx, asked);
        if (before !== undefined) return acquiring(ctx, told, () => Promise.resolve(before));
        // Whether it waits there is not known here.
        const mayWaitThere = input.waitMs > 0 && isElsewhere(ctx, input.datacenter);
        const stopWaiting = mayWaitThere ? startWaiting(ctx) : undefined;
        try {
          return await at(ctx, input, ({ witness, ...wanted }) =>
            acquiring(ctx, witness, () => acquire(ctx, wanted)),
          );
        } finally {
          stopWaiting?.();
        }
      },
    );
  }),

  /** All of the leases, or none. */
  acquireAll: clientProcedure.input(bounded(acquireAllInputSchema)).mutation(({ ctx, input }) => {
    const { witness: told, ...asked } = input;
    const { idempotencyKey, scopes } = asked;
    // The lease that stands in the way, once it is known.
    let [scope] = scopes;
    return refusing(
      () => ({
        ctx,
        ...askedFor('lease', {
          ...asked,
          namespace: scope?.namespace ?? '',
          name: scope?.key ?? '',
        }),
        idempotencyKey,
        refuse: (error) => acquiring(ctx, told, () => refuseAll(ctx, asked, error)),
      }),
      async () => {
        for (const { namespace } of scopes) assertMayHold(ctx.access, namespace);
        const before = await allRefusedBefore(ctx, asked);
        if (before !== undefined) {
          if (before.outcome !== 'granted') scope = nameInTheWay(before);
          return acquiring(ctx, told, () => Promise.resolve(before));
        }
        const mayWaitThere = input.waitMs > 0 && isElsewhere(ctx, input.datacenter);
        const stopWaiting = mayWaitThere ? startWaiting(ctx, scopes.length) : undefined;
        try {
          const answer = await at(ctx, input, ({ witness, ...wanted }) =>
            acquiring(ctx, witness, () => acquireAll(ctx, wanted)),
          );
          if (answer.outcome !== 'granted') scope = nameInTheWay(answer);
          return answer;
        } finally {
          stopWaiting?.();
        }
      },
    );
  }),

  acquireMany: clientProcedure
    .input(bounded(acquireManyInputSchema))
    .mutation(({ ctx, input: { witness, ...wanted } }) =>
      acquiring(ctx, witness, () => acquireMany(ctx, wanted)),
    ),

  releaseMany: clientProcedure.input(bounded(releaseManyInputSchema)).mutation(
    placed(async (ctx, { items }) => {
      ctx.use?.countItems(items.length, 'urgent');
      const results = await oneByOne(
        { ...callOf(ctx), items, schema: releaseItemSchema },
        async (item) => ({ outcome: await release(ctx, 'leases', item) }),
      );
      return { results };
    }),
  ),

  /** Holders of leases and of environments receive notices of revocations here. */
  session: clientProcedure
    .input(bounded(leaseSessionInputSchema))
    .subscription(({ ctx, signal }) =>
      ctx.services.leases.revocations(ctx.caller, signal ?? ctx.signal),
    ),

  /** For a holder that has it alone and wants to share it: it stays the same grant. */
  downgrade: clientProcedure.input(bounded(downgradeInputSchema)).mutation(
    placed(({ services, caller, use }, sent) =>
      writing(
        use,
        bytesOfEvent(),
        () => services.leases.downgrade(sent, caller),
        ({ outcome }) => outcome === 'updated',
      ),
    ),
  ),

  declare: clientProcedure.input(bounded(declareInputSchema)).mutation(({ ctx, input }) => {
    ctx.use?.countItems(input.declarations.length);
    for (const { namespace } of input.declarations) assertMayHold(ctx.access, namespace);
    return at(ctx, input, ({ declarations }) => {
      const ownMax = ctx.use?.limits.declarations;
      return ctx.services.leases.declare({ declarations, ownMax }, ctx.caller);
    });
  }),
};

/** What people look at. */
const looking = {
  declared: viewerProcedure
    .input(bounded(declaredInputSchema))
    .query(placed(({ services, caller }, asked) => services.leases.declared(asked, caller))),

  list: viewerProcedure
    .input(bounded(leaseListInputSchema))
    .query(listed(({ services, caller }, wanted) => services.leases.list(wanted, caller))),

  count: viewerProcedure
    .input(bounded(leaseCountInputSchema))
    .query(counted(({ services, caller }, wanted) => services.leases.count(wanted, caller))),

  get: viewerProcedure
    .input(bounded(leaseNameSchema))
    .query(placed(({ services, caller }, name) => services.leases.get(name, caller))),

  tree: viewerProcedure
    .input(bounded(leaseTreeInputSchema))
    .query(({ ctx, input }) =>
      treeAt(ctx, input, (wanted) => ctx.services.leases.tree(wanted, ctx.caller)),
    ),

  waiters: viewerProcedure
    .input(bounded(leasePageInputSchema))
    .query(placed(({ services, caller }, page) => services.leases.waiters(page, caller))),

  contention: viewerProcedure
    .input(bounded(leaseContentionInputSchema))
    .query(listed(({ services, caller }, wanted) => services.leases.contention(wanted, caller))),

  /** Who made others wait for it, and what is taken in an opposite order. */
  why: viewerProcedure
    .input(bounded(leaseWhyInputSchema))
    .query(placed(({ services, caller }, asked) => services.leases.why(asked, caller))),

  /** What was waited for, of leases and of environments. */
  mostWaited: viewerProcedure
    .input(bounded(mostWaitedInputSchema))
    .query(placed(({ services, caller }, asked) => services.leases.mostWaited(asked, caller))),

  failingCallbacks: viewerProcedure
    .input(bounded(failingCallbacksInputSchema))
    .query(
      listed(({ services, caller }, wanted) => services.leases.failingCallbacks(wanted, caller)),
    ),

  history: viewerProcedure
    .input(bounded(leasePageInputSchema))
    .query(placed(({ services, caller }, page) => services.leases.history(page, caller))),

  /** Who held it at a moment. */
  at: viewerProcedure
    .input(bounded(leaseAtInputSchema))
    .query(placed(({ services, caller }, asked) => services.leases.at(asked, caller))),
};

/** What operators do about the number of permits. */
const permitting = {
  setPermits: operatorProcedure.input(bounded(setPermitsInputSchema)).mutation(({ ctx, input }) => {
    assertMayHold(ctx.access, input.namespace);
    return at(ctx, input, (wanted) => {
      const { services, caller, actor, use } = ctx;
      use?.startWriting(bytesOfEvent(wanted.reason));
      return services.leases.setPermits(wanted, caller, actor);
    });
  }),
};

/** The leases face on the wire. The lease service decides, also what a caller may read. */
export const leasesRouter = router({
  ...holding,
  ...heldCalls('leases'),
  ...looking,
  ...permitting,
  ...renewableActs('leases'),
});

type Acquired = Awaited<ReturnType<ApiServices['leases']['acquire']>>;

/** What is asked for, with the other datacenter that it is to be carried out in, if any. */
type Wanted = z.output<typeof acquireItemSchema> & {
  readonly waitMs: number;
  readonly callMs?: number | undefined;
  readonly localTimeMs: number;
};

/** Acquires a lease of this datacenter. @throws {LeaseError} `auth.forbidden`. */
async function acquire(ctx: CalledContext, input: Omit<Wanted, 'datacenter'>): Promise<Acquired> {
  const { key, ...rest } = input;
  const { use, services, caller } = ctx;
  assertMayHold(ctx.access, input.namespace);
  await use?.mayHold(1);
  const wanted = { ...rest, name: key };
  const life = wanted.waitMs > 0 ? waitingLife(ctx) : ctx.life;
  const answer = await writing(
    use,
    bytesOfGrant(wanted),
    () => services.leases.acquire(wanted, caller, life),
    ({ outcome }) => outcome === 'granted',
  );
  if (answer.outcome === 'granted') use?.noteHeld(1);
  return answer;
}

type AcquiredAll = Awaited<ReturnType<ApiServices['leases']['acquireAll']>>;
type WantedAll = Omit<z.output<typeof acquireAllInputSchema>, 'witness'>;

/** Acquires leases of this datacenter together. @throws {LeaseError} `auth.forbidden`, before anything is granted. */
async function acquireAll(
  ctx: CalledContext,
  input: Omit<WantedAll, 'datacenter'>,
): Promise<AcquiredAll> {
  const { use, services, caller } = ctx;
  const wanted = { ...input, scopes: input.scopes.map(namedOf) };
  for (const { namespace } of wanted.scopes) assertMayHold(ctx.access, namespace);
  use?.countItems(wanted.scopes.length);
  await use?.mayHold(wanted.scopes.length);
  const life = wanted.waitMs > 0 ? waitingLife(ctx, wanted.scopes.length) : ctx.life;
  const bytes = wanted.scopes.reduce(
    (sum, scope) => sum + bytesOfGrant({ ...wanted, ...scope }),
    0,
  );
  const answer = await writing(
    use,
    bytes,
    () => services.leases.acquireAll(wanted, caller, life),
    ({ outcome }) => outcome === 'granted',
  );
  if (answer.outcome === 'granted') use?.noteHeld(answer.leases.length);
  return answer;
}

function nameInTheWay({
  namespace,
  key,
}: {
  readonly namespace: readonly string[];
  readonly key: string;
}) {
  return { namespace: namespace.join('.'), key };
}

/** Records why they are refused, and throws it. */
function refuseAll(ctx: CalledContext, wanted: WantedAll, error: LeaseError): Promise<AcquiredAll> {
  return ctx.services.leases.refuseAll(recordedAll(ctx, wanted), ctx.caller, error);
}

/** What a request for another datacenter was refused here before; undefined for any other request. */
async function allRefusedBefore(
  ctx: CalledContext,
  wanted: WantedAll,
): Promise<AcquiredAll | undefined> {
  if (!isSentOn(ctx, wanted.datacenter)) return undefined;
  return ctx.services.leases.allRefusedBefore(recordedAll(ctx, wanted), ctx.caller);
}

/** As it is recorded here. */
function recordedAll(ctx: CalledContext, { scopes, datacenter, ...rest }: WantedAll) {
  const elsewhere = isElsewhere(ctx, datacenter) ? { datacenter } : {};
  return { ...rest, ...elsewhere, scopes: scopes.map(namedOf) };
}

function namedOf({ key, ...scope }: WantedAll['scopes'][number]) {
  return { ...scope, name: key };
}

/** Records why an acquire is refused, and throws it: see `LeaseService.refuse`. */
function refuse(ctx: CalledContext, wanted: Wanted, error: LeaseError): Promise<Acquired> {
  return ctx.services.leases.refuse(recordedOne(ctx, wanted), ctx.caller, error);
}

/** What a request for another datacenter was refused here before; undefined for any other request. */
async function refusedBefore(ctx: CalledContext, wanted: Wanted): Promise<Acquired | undefined> {
  if (!isSentOn(ctx, wanted.datacenter)) return undefined;
  return ctx.services.leases.refusedBefore(recordedOne(ctx, wanted), ctx.caller);
}

/** As it is recorded here. */
function recordedOne(ctx: CalledContext, { key, datacenter, ...rest }: Wanted) {
  const elsewhere = isElsewhere(ctx, datacenter) ? { datacenter } : {};
  return { ...rest, ...elsewhere, name: key };
}

/** Acquires many, each in the datacenter that it names: one call to each, all at the same time. */
export async function acquireMany(
  ctx: CalledContext,
  { items, localTimeMs }: Omit<z.output<typeof acquireManyInputSchema>, 'witness'>,
): Promise<{ results: (Acquired | FailedItem)[] }> {
  try {
    ctx.use?.countItems(items.length);
  } catch (error) {
    await refuseItems(ctx, { items, localTimeMs }, error);
    throw error;
  }
  const places = new Map<string | undefined, number[]>();
  for (const [index, item] of items.entries()) {
    const place = placeOf(ctx, item);
    const indexes = places.get(place);
    if (indexes === undefined) places.set(place, [index]);
    else indexes.push(index);
  }
  const results: (Acquired | FailedItem)[] = [];
  await Promise.all(
    [...places].map(async ([datacenter, indexes]) => {
      const wanted = indexes.map((index) => items[index]);
      const answers =
        datacenter === undefined
          ? await acquireHere(ctx, wanted, localTimeMs)
          : await acquireThere(ctx, datacenter, { items: wanted, localTimeMs });
      for (const [place, index] of indexes.entries()) {
        const answer = answers[place];
        if (answer !== undefined) results[index] = answer;
      }
    }),
  );
  return { results };
}

/** The other datacenter that an item names; an item is checked only when it is carried out. */
function placeOf(ctx: CalledContext, item: unknown): string | undefined {
  const isObject = typeof item === 'object' && item !== null && 'datacenter' in item;
  const parsed = acquireItemSchema.shape.datacenter.safeParse(
    isObject ? item.datacenter : undefined,
  );
  return parsed.success && isElsewhere(ctx, parsed.data) ? parsed.data : undefined;
}

function acquireHere(
  ctx: CalledContext,
  items: readonly unknown[],
  localTimeMs: number,
): Promise<(Acquired | FailedItem)[]> {
  return oneByOne(
    { ...callOf(ctx), items, schema: acquireItemSchema },
    ({ datacenter: _here, ...item }) => {
      const wanted = { ...item, waitMs: 0, localTimeMs };
      return refusing(
        () => ({
          ctx,
          ...askedFor('lease', { ...item, name: item.key }),
          idempotencyKey: item.idempotencyKey,
          refuse: (error) => refuse(ctx, wanted, error),
        }),
        () => acquire(ctx, wanted),
      );
    },
  );
}

interface Items {
  readonly items: readonly unknown[];
  readonly localTimeMs: number;
}

/** Answers each item with why it is refused, which is recorded for those with an idempotency key. */
function refuseItems(
  ctx: CalledContext,
  { items, localTimeMs }: Items,
  error: unknown,
): Promise<(Acquired | FailedItem)[]> {
  return oneByOne({ ...callOf(ctx), items, schema: acquireItemSchema }, (item) =>
    refused(
      {
        idempotencyKey: item.idempotencyKey,
        refuse: (refusal) => refuse(ctx, { ...item, waitMs: 0, localTimeMs }, refusal),
      },
      error,
    ),
  );
}

/** What is sent on, with each item that was refused here before answered as then. */
async function acquireThere(
  ctx: CalledContext,
  datacenter: string,
  { items, localTimeMs }: Items,
): Promise<(Acquired | FailedItem)[]> {
  const before = await oneByOne(
    { ...callOf(ctx), items, schema: acquireItemSchema },
    async (item) => ({
      answer: await refusedBefore(ctx, { ...item, waitMs: 0, localTimeMs }),
    }),
  );
  const open = items.filter((_item, index) => isOpen(before[index]));
  const answers = await acquireFresh(ctx, datacenter, { items: open, localTimeMs });
  const fresh = answers.values();
  return before.flatMap((found) => {
    if ('outcome' in found) return [found];
    return found.answer ?? fresh.next().value ?? [];
  });
}

function isOpen(
  found: { readonly answer: Acquired | undefined } | FailedItem | undefined,
): boolean {
  return found !== undefined && !('outcome' in found) && found.answer === undefined;
}

/** If the call to the other datacenter fails, each of its items is answered with that error. */
async function acquireFresh(
  ctx: CalledContext,
  datacenter: string,
  { items, localTimeMs }: Items,
): Promise<(Acquired | FailedItem)[]> {
  if (items.length === 0) return [];
  try {
    const input = { localTimeMs, items: items.map(withoutDatacenter) };
    const answer = (await sendOn(ctx, datacenter, { input })) as Awaited<
      ReturnType<typeof acquireMany>
    >;
    const missing = failedItem(
      callOf(ctx),
      new LeaseError(
        'request.outcome_unknown',
        `The datacenter "${datacenter}" did not answer every request; the outcome is unknown.`,
        { details: { datacenter } },
      ),
    );
    return items.map((_item, index) => answer.results[index] ?? missing);
  } catch (error) {
    return refuseItems(ctx, { items, localTimeMs }, error);
  }
}
