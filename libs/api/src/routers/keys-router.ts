import { reservationKeyOf } from '@leasehold/keys-core';
import { keyUrl } from '@leasehold/keys-core/gateway-addresses';
import type { ConnectResult, KeyView } from '@leasehold/keys-core/keys';
import type { z } from 'zod';
import { assertMayHold, assertMayStart, errorFor, mayRead } from '../access.ts';
import { bounded } from '../bounded-input.ts';
import {
  connectInputSchema,
  keyAtInputSchema,
  keyCountInputSchema,
  keyListInputSchema,
  keyNameSchema,
  keyPageInputSchema,
  keyRenewInputSchema,
  keyResetInputSchema,
  keyRevokeInputSchema,
} from '../contract/keys.ts';
import { counted, listed } from '../forwarding/across-datacenters.ts';
import { at, placed, sendOn, type CalledContext } from '../forwarding/elsewhere.ts';
import {
  clientProcedure,
  droneProcedure,
  operatorProcedure,
  router,
  viewerProcedure,
} from '../trpc.ts';
import { assertGateway, bytesOfStart, signedFor } from './gateway-router.ts';
import { renewableActs, renewing } from './lease-calls.ts';
import { bytesOf, bytesOfEvent, bytesOfGrant, refusing, writing } from './recording.ts';

/** The keys face on the wire. The key service decides, also what a caller may read. */
export const keysRouter = router({
  connect: clientProcedure
    .input(bounded(connectInputSchema))
    .mutation(({ ctx, input }) => connected(ctx, input)),

  get: viewerProcedure.input(bounded(keyNameSchema)).query(({ ctx, input }) =>
    at(ctx, input, async (name) => {
      // Before the key is looked for elsewhere.
      if (!mayRead(ctx.access, name.namespace)) return null;
      const here = await ctx.services.keys.get(name, ctx.caller);
      return here ?? (input.datacenter === undefined ? atHome(ctx, name) : null);
    }),
  ),

  list: viewerProcedure
    .input(bounded(keyListInputSchema))
    .query(listed(({ services, caller }, wanted) => services.keys.list(wanted, caller))),

  count: viewerProcedure
    .input(bounded(keyCountInputSchema))
    .query(counted(({ services, caller }, wanted) => services.keys.count(wanted, caller))),

  renew: droneProcedure
    .input(bounded(keyRenewInputSchema))
    .mutation(({ ctx, input: { witness, ...renewals } }) =>
      renewing(ctx, witness, async () => {
        ctx.use?.countItems(renewals.renewals.length, 'urgent');
        return { results: await ctx.services.keys.renew(renewals) };
      }),
    ),

  ...renewableActs('keys'),

  revoke: operatorProcedure.input(bounded(keyRevokeInputSchema)).mutation(
    placed(({ services, caller, actor, use }, act) => {
      use?.noteWritten(bytesOfEvent(act.reason));
      return services.keys.revoke(act, caller, { ...actor, action: 'keys.revoke' });
    }),
  ),

  /** Backends of the key that have failed one after another; null if the last one has not. */
  failures: viewerProcedure
    .input(bounded(keyNameSchema))
    .query(placed(({ services, caller }, key) => services.keys.failures(key, caller))),

  /** Lets a key be started at once whose last backends have failed. */
  resetFailures: operatorProcedure.input(bounded(keyResetInputSchema)).mutation(
    placed(async ({ services, caller, actor, use }, act) => {
      const answer = await services.keys.resetFailures(act, caller, actor);
      if (answer.changed) use?.noteWritten(bytesOfEvent(act.reason));
      return answer;
    }),
  ),

  waiters: viewerProcedure
    .input(bounded(keyPageInputSchema))
    .query(placed(({ services, caller }, page) => services.keys.waiters(page, caller))),

  history: viewerProcedure
    .input(bounded(keyPageInputSchema))
    .query(placed(({ services, caller }, page) => services.keys.history(page, caller))),

  /** Who held it at a moment. */
  at: viewerProcedure
    .input(bounded(keyAtInputSchema))
    .query(placed(({ services, caller }, asked) => services.keys.at(asked, caller))),
});

/** Connects, and keeps why if that is refused. */
function connected(
  ctx: CalledContext,
  { access: inBrowsers, ...input }: z.output<typeof connectInputSchema>,
): Promise<OpenedKey> {
  const { services, access, caller, signal } = ctx;
  const { namespace = '', name = '' } = input.key ?? {};
  // Before anything is granted, and not kept as the answer of the request: it can be configured meanwhile.
  if (inBrowsers !== undefined) assertGateway(services, { namespace, name });
  const open = (result: ConnectResult): Promise<OpenedKey> =>
    opened(ctx, result, { access: inBrowsers, spawn: input.spawn });
  return refusing(
    () => ({
      ctx,
      resource: { face: 'key', namespace, name },
      idempotencyKey: input.idempotencyKey,
      refuse: async (error) => open(await services.reservations.refuse(input, caller, error)),
    }),
    async () => {
      assertMayHold(access, namespace);
      assertMayStart(access, input.spawn?.program);
      const stopWaiting = ctx.use?.startWaiting();
      try {
        const result = await writing(
          input.spawn === undefined ? undefined : ctx.use,
          // What it is started with is in its record, and in what its drone is sent.
          bytesOfGrant({ namespace, name }) + 2 * bytesOf(JSON.stringify(input.spawn)),
          () =>
            services.reservations.connect(input, caller, signal, {
              datacenter: input.spawn?.datacenter,
              use: ctx.use,
            }),
          ({ spawned }) => spawned,
        );
        return await open(result);
      } catch (error) {
        throw errorFor(access, error);
      } finally {
        stopWaiting?.();
      }
    },
  );
}

/** What a connect answers: also where browsers reach the key. */
export interface OpenedKey extends ConnectResult {
  /** Null without a gateway. With `access` it has a token of its own in it. */
  readonly url: string | null;
  /** When that token expires, ISO-8601; null without one. */
  readonly urlExpiresAt: string | null;
}

async function opened(
  { services, use }: CalledContext,
  result: ConnectResult,
  { access, spawn }: Pick<z.output<typeof connectInputSchema>, 'access' | 'spawn'>,
): Promise<OpenedKey> {
  const { key, leaseId } = result;
  if (access === undefined) {
    return { ...result, url: keyUrl(services.gateway.addresses, key), urlExpiresAt: null };
  }
  const start = access.mayStart ? spawn : undefined;
  // Not refused any more: what was asked for has begun.
  if (start !== undefined) use?.noteWritten(bytesOfStart(start));
  const { url, urlExpiresAt } = await signedFor(services, {
    key,
    access,
    leaseId: access.grantOnly ? leaseId : undefined,
    spawn: start,
  });
  return { ...result, url, urlExpiresAt };
}

/**
 * A key that is not here, from its home: a caller that names no datacenter wants to know who holds
 * the key. Null when it is reserved nowhere else.
 */
async function atHome(
  ctx: CalledContext,
  name: { readonly namespace: string; readonly name: string },
): Promise<KeyView | null> {
  const { reservations, datacenters } = ctx.services;
  if (ctx.isForwarded || datacenters.peers.length === 0) return null;
  const home = await reservations.resolve({ key: reservationKeyOf(name), isFresh: true });
  if (home.outcome === 'not_found' || !datacenters.peers.includes(home.datacenter)) return null;
  // It is asked beside this one, and keeps a place among the reads of this one.
  const sent = { input: name, isOneOfSeveral: true };
  return (await sendOn(ctx, home.datacenter, sent)) as KeyView | null;
}
