/** The environments face on the wire: leases for an action, with an order in line, freezes and superseding. */
import type { Named } from '@leasehold/keys-core';
import type { CallerLife } from '@leasehold/keys-core/leases';
import type { z } from 'zod';
import { assertMayHold } from '../access.ts';
import { bounded } from '../bounded-input.ts';
import type { ApiServices } from '../context.ts';
import {
  acquireEnvironmentInputSchema,
  environmentAtInputSchema,
  environmentCountInputSchema,
  environmentListInputSchema,
  environmentNameSchema,
  environmentPageInputSchema,
  environmentWhyInputSchema,
  freezeInputSchema,
  freezeListInputSchema,
  tryAcquireInputSchema,
  unfreezeInputSchema,
} from '../contract/leases.ts';
import { counted, listed } from '../forwarding/across-datacenters.ts';
import { at, isElsewhere, isSentOn, placed, type CalledContext } from '../forwarding/elsewhere.ts';
import { clientProcedure, operatorProcedure, router, viewerProcedure } from '../trpc.ts';
import { acquiring, heldCalls, startWaiting, waitingLife } from './lease-calls.ts';
import { askedFor, bytesOfEvent, bytesOfGrant, refusing, writing } from './recording.ts';

type Answer = Awaited<ReturnType<ApiServices['environments']['acquire']>>;

/** A grant with what the environment is leased for. */
function named<Action>(action: Action, answer: Answer) {
  return answer.outcome === 'granted' ? { ...answer, action } : answer;
}

/**
 * Records that a grant has overridden freezes, if it has. Its event has said so since it was made: a controller that
 * dies before this leaves that.
 */
async function auditOverride(
  { services, actor, use }: CalledContext,
  asked: Omit<z.output<typeof tryAcquireInputSchema>, 'environment'> & Named,
  leaseId: string,
): Promise<void> {
  const { override, namespace, name, action } = asked;
  if (override === undefined) return;
  const freezes = await services.freezes.overriddenBy(leaseId);
  if (freezes.length === 0) return;
  use?.noteWritten(bytesOfEvent(override.reason));
  await services.audit.write({
    ...actor,
    action: 'environments.overrideFreeze',
    resource: `lease:${leaseId}`,
    reason: override.reason,
    detail: { face: 'environment', namespace, name, action, freezes },
  });
}

/** What people do about freezes. */
const freezing = {
  freeze: operatorProcedure.input(bounded(freezeInputSchema)).mutation(({ ctx, input }) => {
    assertMayHold(ctx.access, input.namespace);
    return at(ctx, input, (wanted) => {
      const { services, caller, actor, use } = ctx;
      use?.startWriting(bytesOfEvent(wanted.reason));
      return services.freezes.freeze(wanted, caller, actor);
    });
  }),

  unfreeze: operatorProcedure.input(bounded(unfreezeInputSchema)).mutation(
    placed(({ services, caller, actor, use }, act) => {
      use?.noteWritten(bytesOfEvent(act.reason));
      return services.freezes.unfreeze(act, caller, actor);
    }),
  ),

  freezes: viewerProcedure
    .input(bounded(freezeListInputSchema))
    .query(listed(({ services, caller }, wanted) => services.freezes.list(wanted, caller))),
};

type Wanted = z.output<typeof tryAcquireInputSchema> &
  Partial<
    Omit<
      z.output<typeof acquireEnvironmentInputSchema>,
      keyof z.output<typeof tryAcquireInputSchema>
    >
  >;

/** Leases an environment, at once or after a wait in its line. */
function acquire(ctx: CalledContext, input: Wanted) {
  const { services, access, caller, use } = ctx;
  const { environment: place, durationMs: ttlMs, witness: told, datacenter, ...rest } = input;
  const wanted = { waitMs: 0, ...rest, ...place, ttlMs };
  const elsewhere = isElsewhere(ctx, datacenter) ? { datacenter } : {};
  const { action } = input;
  return refusing(
    () => ({
      ctx,
      ...askedFor('environment', { ...place, ...input }),
      idempotencyKey: input.idempotencyKey,
      refuse: (error) =>
        acquiring(ctx, told, async () =>
          named(
            action,
            await services.environments.refuse({ ...wanted, ...elsewhere }, caller, error),
          ),
        ),
    }),
    async () => {
      assertMayHold(access, place.namespace);
      // What was refused here is not known there.
      const before = isSentOn(ctx, datacenter)
        ? await services.environments.refusedBefore({ ...wanted, datacenter }, caller)
        : undefined;
      if (before !== undefined) {
        return acquiring(ctx, told, () => Promise.resolve(named(action, before)));
      }
      // Whether it waits there is not known here.
      const mayWaitThere = wanted.waitMs > 0 && isElsewhere(ctx, datacenter);
      const stopWaiting = mayWaitThere ? startWaiting(ctx) : undefined;
      try {
        return await at(ctx, input, () => acquiring(ctx, told, () => acquireHere()));
      } finally {
        stopWaiting?.();
      }
    },
  );

  async function acquireHere() {
    await use?.mayHold(1);
    const answer = await writing(
      use,
      bytesOfGrant(wanted),
      () => services.environments.acquire(wanted, caller, environmentLife(ctx, wanted.waitMs)),
      ({ outcome }) => outcome === 'granted',
    );
    if (answer.outcome === 'granted') {
      use?.noteHeld(1);
      await auditOverride(ctx, wanted, answer.lease.leaseId);
    }
    return named(action, answer);
  }
}

/** The caller's connection, and what the audit says of its request if that supersedes others. */
function environmentLife(ctx: CalledContext, waitMs: number): CallerLife {
  if (waitMs === 0) return ctx.life;
  return { ...waitingLife(ctx), entry: { ...ctx.actor, action: 'environments.supersede' } };
}

/** The environments face on the wire. */
export const environmentsRouter = router({
  tryAcquire: clientProcedure
    .input(bounded(tryAcquireInputSchema))
    .mutation(({ ctx, input }) => acquire(ctx, input)),

  acquire: clientProcedure
    .input(bounded(acquireEnvironmentInputSchema))
    .mutation(({ ctx, input }) => acquire(ctx, input)),

  /** Who waits for it, and who was superseded. */
  queue: viewerProcedure
    .input(bounded(environmentNameSchema))
    .query(placed(({ services, caller }, name) => services.environments.queue(name, caller))),

  ...heldCalls('environments'),
  ...freezing,

  list: viewerProcedure
    .input(bounded(environmentListInputSchema))
    .query(listed(({ services, caller }, wanted) => services.environments.list(wanted, caller))),

  count: viewerProcedure
    .input(bounded(environmentCountInputSchema))
    .query(counted(({ services, caller }, wanted) => services.environments.count(wanted, caller))),

  get: viewerProcedure
    .input(bounded(environmentNameSchema))
    .query(placed(({ services, caller }, name) => services.environments.get(name, caller))),

  history: viewerProcedure
    .input(bounded(environmentPageInputSchema))
    .query(placed(({ services, caller }, page) => services.environments.history(page, caller))),

  why: viewerProcedure
    .input(bounded(environmentWhyInputSchema))
    .query(placed(({ services, caller }, asked) => services.environments.why(asked, caller))),

  /** Who held it at a moment. */
  at: viewerProcedure
    .input(bounded(environmentAtInputSchema))
    .query(placed(({ services, caller }, asked) => services.environments.at(asked, caller))),
});
