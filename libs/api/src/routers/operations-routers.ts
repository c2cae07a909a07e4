/** What operators read and do: audit, people, tokens, events, refusals, search, bulk actions, datacenters, hold-offs and statistics. */
import { BULK_ACTIONS, type EventView, LIMITS } from '@leasehold/keys-core';
import { tracked, type TrackedEnvelope } from '@trpc/server';
import { z } from 'zod';
import { assertMayRead, type SessionView } from '../access.ts';
import { bounded } from '../bounded-input.ts';
import { asOf, type CallerConnection, inTurnOf } from '../context.ts';
import {
  auditCountInputSchema,
  auditListInputSchema,
  personActInputSchema,
  personInviteInputSchema,
  personSetRoleInputSchema,
  tokenCreateInputSchema,
  tokenGetInputSchema,
  tokenRevokeInputSchema,
} from '../contract/access.ts';
import {
  datacenterSchema,
  grantRefSchema,
  pageFields,
  placedFields,
  reasonSchema,
  searchCountInputSchema,
  searchInputSchema,
  uuidSchema,
} from '../contract/common.ts';
import {
  eventCountInputSchema,
  eventListInputSchema,
  eventWatchInputSchema,
  findInputSchema,
  observeInputSchema,
  refusalListInputSchema,
} from '../contract/events.ts';
import { counted, findWhere, listed } from '../forwarding/across-datacenters.ts';
import { placed } from '../forwarding/elsewhere.ts';
import {
  adminProcedure,
  fleetOperatorProcedure,
  router,
  unlimitedViewerProcedure,
  viewerProcedure,
} from '../trpc.ts';
import { bytesOfEvent } from './recording.ts';

/** A frozen selection: never a predicate, and never empty. */
const bulkItemsSchema = z
  .array(grantRefSchema)
  .min(1)
  .max(LIMITS.bulkItemsMax)
  .refine(
    (items) => new Set(items.map(({ leaseId }) => leaseId)).size === items.length,
    'must name each lease once',
  );

const bulkPreviewInputSchema = z.strictObject({ items: bulkItemsSchema });

const bulkStartInputSchema = z
  .strictObject({
    action: z.enum(BULK_ACTIONS),
    /** For `revoke`; graceful by default. */
    mode: z.enum(['graceful', 'force']).optional(),
    reason: reasonSchema,
    items: bulkItemsSchema,
  })
  .refine((input) => input.action === 'revoke' || input.mode === undefined, {
    message: 'is for the action revoke only',
    path: ['mode'],
  });

const bulkIdInputSchema = z.strictObject({ bulkId: uuidSchema });

const bulkItemsInputSchema = bulkIdInputSchema.extend(pageFields);

const holdOffInputSchema = z.strictObject(placedFields).prefault({});

const holdOffEndInputSchema = z.strictObject({
  reason: reasonSchema,
  /** Of the hold-off that the caller has seen: another one goes on. */
  epoch: z.number().int().positive().optional(),
  ...placedFields,
});

const takeBackInputSchema = z.strictObject({
  datacenter: datacenterSchema,
  reason: reasonSchema,
});

const giveUpInputSchema = takeBackInputSchema.extend({
  /** Nothing runs there, and the caller answers for it: nobody waits. */
  abandon: z.boolean().default(false),
});

/** A day: the time for which the buckets are kept. */
const STATS_WINDOW_MINUTES_MAX = 1_440;

const statsOverviewInputSchema = z
  .strictObject({
    windowMinutes: z.number().int().min(5).max(STATS_WINDOW_MINUTES_MAX).default(60),
  })
  .prefault({});

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
  giveUp: adminProcedure
    .input(bounded(giveUpInputSchema))
    .mutation(({ ctx: { services, actor }, input }) => services.giveUp.giveUp(input, actor)),

  takeBack: adminProcedure
    .input(bounded(takeBackInputSchema))
    .mutation(async ({ ctx: { services, actor }, input }) => {
      await services.giveUp.takeBack(input, actor);
      return { datacenter: input.datacenter };
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

/** What operators did outside of leases, in every namespace. */
export const auditRouter = router({
  list: fleetOperatorProcedure
    .input(bounded(auditListInputSchema))
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.audit.list(input))),

  count: fleetOperatorProcedure
    .input(bounded(auditCountInputSchema))
    .query(({ ctx, input }) => ctx.services.audit.count(input)),
});

/** Who may sign in to the console, and as what. */
export const peopleRouter = router({
  list: adminProcedure
    .input(bounded(searchInputSchema))
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.people.list(input))),

  count: adminProcedure
    .input(bounded(searchCountInputSchema))
    .query(({ ctx, input }) => ctx.services.people.count(input)),

  invite: adminProcedure
    .input(bounded(personInviteInputSchema))
    .mutation(({ ctx, input }) => ctx.services.people.invite(input, ctx.actor)),

  setRole: adminProcedure
    .input(bounded(personSetRoleInputSchema))
    .mutation(({ ctx, input }) => ctx.services.people.setRole(input, ctx.actor)),

  disable: adminProcedure
    .input(bounded(personActInputSchema))
    .mutation(({ ctx, input }) => ctx.services.people.disable(input, ctx.actor)),

  enable: adminProcedure
    .input(bounded(personActInputSchema))
    .mutation(({ ctx, input }) => ctx.services.people.enable(input, ctx.actor)),

  resetPassword: adminProcedure
    .input(bounded(personActInputSchema))
    .mutation(({ ctx, input }) => ctx.services.people.resetPassword(input, ctx.actor)),

  signOutEverywhere: adminProcedure
    .input(bounded(personActInputSchema))
    .mutation(({ ctx, input }) => ctx.services.people.signOutEverywhere(input, ctx.actor)),
});

/** The caller itself. */
export const sessionRouter = router({
  get: viewerProcedure.query(async ({ ctx }): Promise<SessionView> => {
    const { name: actor, role, namespaces, session } = ctx.access;
    const { datacenter } = ctx.services;
    const asOf = await ctx.services.now();
    const seen = { actor, role, namespaces, datacenter, asOf };
    if (session === undefined) return { ...seen, person: null, csrfToken: null, expiresAt: null };
    const { personId, email, name, signInMethods, csrfToken, expiresAt } = session;
    return { ...seen, person: { personId, email, name, signInMethods }, csrfToken, expiresAt };
  }),
});

/** API tokens. A secret is shown once, in the answer of `create`. */
export const tokensRouter = router({
  create: adminProcedure
    .input(bounded(tokenCreateInputSchema))
    .mutation(({ ctx, input }) => ctx.services.tokens.create(input, ctx.actor)),

  list: adminProcedure
    .input(bounded(searchInputSchema))
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.tokens.list(input))),

  count: adminProcedure
    .input(bounded(searchCountInputSchema))
    .query(({ ctx, input }) => ctx.services.tokens.count(input)),

  /** One token, with its limits and its present use of them. */
  get: adminProcedure
    .input(bounded(tokenGetInputSchema))
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.tokens.get(input.tokenId))),

  revoke: adminProcedure
    .input(bounded(tokenRevokeInputSchema))
    .mutation(({ ctx, input }) => ctx.services.tokens.revoke(input, ctx.actor)),
});

/** Connects and acquires that were refused. */
export const refusalsRouter = router({
  /** Refusals of the last week by hour, resource and code, those that were refused last first. */
  list: viewerProcedure
    .input(bounded(refusalListInputSchema))
    .query(
      listed(({ services, access }, wanted) =>
        asOf(services, () => services.refusals.list(wanted, access.namespaces)),
      ),
    ),
});

/** What happened to anything that can be held, in order. */
export const eventsRouter = router({
  /** Where the stream begins and ends now: watching from `lastId` misses nothing from here on. */
  head: viewerProcedure.query(({ ctx }) => ctx.services.events.head(ctx.access.namespaces)),

  /** What happened, page by page. A page with fewer events than requested, or none, need not be the last. */
  list: viewerProcedure
    .input(bounded(eventListInputSchema))
    .query(
      listed(({ services, access }, wanted) =>
        asOf(services, () => services.events.list(wanted, access.namespaces)),
      ),
    ),

  count: viewerProcedure
    .input(bounded(eventCountInputSchema))
    .query(
      counted(({ services, access }, wanted) => services.events.count(wanted, access.namespaces)),
    ),

  /**
   * What happens to which resource, for a caller that then reads it again: at most one message a second, however
   * many events there are. It begins with what comes next, and cannot be resumed: read everything again
   * after a reconnect.
   */
  changes: viewerProcedure.subscription(async ({ ctx, signal }) => {
    const changes = await ctx.services.events.changes(
      { filter: { limits: ctx.access.namespaces }, inTurn: inTurnOf(ctx.use) },
      signal ?? ctx.signal,
    );
    return asRead(changes, ctx.life);
  }),

  /**
   * Who holds a key, a lease or an environment: first the present state, then each change. A caller that reads slowly
   * gets the newest state. After a reconnect it begins with the state at that time.
   */
  observe: viewerProcedure
    .input(bounded(observeInputSchema))
    .subscription(({ ctx, input, signal }) => {
      assertMayRead(ctx.access, input.namespace);
      return asRead(ctx.services.events.observe(input, signal ?? ctx.signal), ctx.life);
    }),

  watch: viewerProcedure
    .input(bounded(eventWatchInputSchema))
    .subscription(async ({ ctx, input, signal }) => {
      const { afterId, lastEventId, ...wanted } = input;
      const filter = { ...wanted, limits: ctx.access.namespaces };
      const events = await ctx.services.events.watch(
        { afterId: lastEventId ?? afterId, filter, inTurn: inTurnOf(ctx.use) },
        signal ?? ctx.signal,
      );
      return trackedEvents(events, ctx.life);
    }),
});

/** No faster than the caller reads. */
async function* asRead<T>(
  messages: AsyncIterable<T>,
  life: CallerConnection,
): AsyncGenerator<T, void> {
  for await (const message of messages) {
    yield message;
    await life.whenRead?.();
  }
}

/** Each event with its id, from which clients resume; no faster than the caller reads. */
async function* trackedEvents(
  events: AsyncIterable<EventView>,
  life: CallerConnection,
): AsyncGenerator<TrackedEnvelope<EventView>, void> {
  for await (const event of events) {
    yield tracked(event.id, event);
    await life.whenRead?.();
  }
}

/** Anything by any part of its name. The search service decides what the caller may see. */
export const searchRouter = router({
  find: viewerProcedure
    .input(bounded(findInputSchema))
    .query(({ ctx, input }) => findWhere(ctx, input)),
});
