/** Bulk actions, datacenters, hold-offs and statistics. */
import { z } from 'zod';
import { bounded } from '../bounded-input.ts';
import { asOf } from '../context.ts';
import {
  bulkIdInputSchema,
  bulkItemsInputSchema,
  bulkPreviewInputSchema,
  bulkStartInputSchema,
  giveUpInputSchema,
  holdOffEndInputSchema,
  holdOffInputSchema,
  statsOverviewInputSchema,
  takeBackInputSchema,
} from '../contract/operations.ts';
import { placed } from '../forwarding/elsewhere.ts';
import {
  adminProcedure,
  fleetOperatorProcedure,
  router,
  unlimitedViewerProcedure,
  viewerProcedure,
} from '../trpc.ts';
import { bytesOfEvent } from './recording.ts';

/** One act on many grants, with progress. */
export const bulkRouter = router({
  /** A mutation because its items do not fit into an address; it changes nothing. */
  preview: unlimitedViewerProcedure
    .input(bounded(bulkPreviewInputSchema))
    .mutation(({ ctx, input }) => ctx.services.bulk.preview(input.items)),

  start: fleetOperatorProcedure.input(bounded(bulkStartInputSchema)).mutation(({ ctx, input }) => {
    const bytes = input.items.length * bytesOfEvent(input.reason);
    if (input.action === 'revoke') ctx.use?.noteWritten(bytes);
    else ctx.use?.startWriting(bytes);
    return ctx.services.bulk.start(input, ctx.caller, ctx.actor);
  }),

  abort: fleetOperatorProcedure
    .input(bounded(bulkIdInputSchema))
    .mutation(({ ctx, input }) => ctx.services.bulk.abort(input.bulkId, ctx.actor)),

  get: unlimitedViewerProcedure
    .input(bounded(bulkIdInputSchema))
    .query(({ ctx, input }) => ctx.services.bulk.get(input.bulkId)),

  items: unlimitedViewerProcedure
    .input(bounded(bulkItemsInputSchema))
    .query(({ ctx, input }) => ctx.services.bulk.items(input)),

  watch: unlimitedViewerProcedure
    .input(bounded(bulkIdInputSchema))
    .subscription(({ ctx, input, signal }) =>
      ctx.services.bulk.watch(input.bulkId, signal ?? ctx.signal),
    ),
});

/** The datacenters, as this controller sees them. */
export const datacentersRouter = router({
  list: viewerProcedure
    .input(bounded(z.strictObject({}).prefault({})))
    .query(({ ctx }) => asOf(ctx.services, () => Promise.resolve(ctx.services.datacenters.list()))),

  /** Declares a datacenter lost, and lets its keys be given other homes when they have waited. */
  giveUp: adminProcedure.input(bounded(giveUpInputSchema)).mutation(async ({ ctx, input }) => {
    const { services, actor } = ctx;
    const givenUp = await services.giveUp.giveUp(input, actor);
    const { datacenter, reason, abandon } = input;
    await services.audit.write({
      ...actor,
      action: 'datacenters.giveUp',
      resource: `datacenter:${datacenter}`,
      reason,
      detail: { abandon, isFinal: givenUp.opened !== null, remainingMs: givenUp.remainingMs },
    });
    return givenUp;
  }),

  takeBack: adminProcedure.input(bounded(takeBackInputSchema)).mutation(async ({ ctx, input }) => {
    const { services, actor } = ctx;
    await services.giveUp.takeBack(input, actor);
    const { datacenter, reason } = input;
    const resource = `datacenter:${datacenter}`;
    await services.audit.write({ ...actor, action: 'datacenters.takeBack', resource, reason });
    return { datacenter };
  }),
});

/** The time after a restore in which nothing new is granted. */
export const holdOffRouter = router({
  get: viewerProcedure
    .input(bounded(holdOffInputSchema))
    .query(placed((ctx) => ctx.services.holdOff.get())),

  /** It concerns every namespace, so it is not for an operator who is limited to some. */
  end: fleetOperatorProcedure
    .input(bounded(holdOffEndInputSchema))
    .mutation(placed(({ services, actor }, act) => services.holdOff.end(act, actor))),
});

/** The configuration in effect. */
export const settingsRouter = router({
  /** Every variable of the controller that answers, without secrets. */
  list: adminProcedure.query(({ ctx }) => ({ items: ctx.services.settings })),
});

/** The address that is told of alarms and of chosen entries of the audit. */
export const webhookRouter = router({
  /** What it was told, and how its last message failed; null if none is configured. */
  get: unlimitedViewerProcedure.query(({ ctx }) => ctx.services.webhook.get()),

  /** Sends a message now. */
  test: adminProcedure.mutation(async ({ ctx }) => {
    await ctx.services.webhook.test();
    await ctx.services.audit.write({ ...ctx.actor, action: 'webhook.test', resource: 'webhook' });
    return { outcome: 'sent' as const };
  }),
});

/** Numbers over every namespace. */
export const statsRouter = router({
  overview: unlimitedViewerProcedure
    .input(bounded(statsOverviewInputSchema))
    .query(({ ctx, input }) => ctx.services.stats.overview(input)),
});
