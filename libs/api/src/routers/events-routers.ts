import type { EventView } from '@leasehold/keys-core';
import type { InTurn } from '@leasehold/keys-core/events';
import { tracked, type TrackedEnvelope } from '@trpc/server';
import { assertMayRead } from '../access.ts';
import { bounded } from '../bounded-input.ts';
import { asOf, type CallerConnection, type CallerUse } from '../context.ts';
import {
  eventCountInputSchema,
  eventListInputSchema,
  eventWatchInputSchema,
  findInputSchema,
  observeInputSchema,
  refusalListInputSchema,
} from '../contract/events.ts';
import { counted, findWhere, listed } from '../forwarding/across-datacenters.ts';
import { router, viewerProcedure } from '../trpc.ts';

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

/** A stream that is behind waits for its turn with every page. */
function inTurnOf(use: CallerUse | undefined): InTurn | undefined {
  return use === undefined ? undefined : (read) => use.read(read, 'background');
}

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
