/** The gateway on the wire: tokens of people, and what gateways ask. */
import { LeaseError, type Named } from '@leasehold/keys-core';
import type { SignInput } from '@leasehold/keys-core/gateway';
import { keyUrl } from '@leasehold/keys-core/gateway-addresses';
import type { z } from 'zod';
import { assertMayHold, assertMayStart } from '../access.ts';
import { bounded } from '../bounded-input.ts';
import { asOf, type ApiServices, type UnreachableDatacenter } from '../context.ts';
import {
  gatewayHandOverInputSchema,
  gatewayRevokeInputSchema,
  gatewayRotateInputSchema,
  gatewayRouteInputSchema,
  gatewaySignInputSchema,
  gatewaySyncInputSchema,
} from '../contract/gateway.ts';
import { describeError } from '../error-map.ts';
import { askedOf } from '../forwarding/across-datacenters.ts';
import { inputElsewhere, sendOn, type CalledContext } from '../forwarding/elsewhere.ts';
import {
  adminProcedure,
  clientProcedure,
  gatewayProcedure,
  router,
  viewerProcedure,
} from '../trpc.ts';
import { bytesOfEvent, bytesOfGrant, refusing, writing } from './recording.ts';

export const gatewayRouter = router({
  sign: clientProcedure.input(bounded(gatewaySignInputSchema)).mutation(({ ctx, input }) => {
    assertMayHold(ctx.access, input.key.namespace);
    assertMayStart(ctx.access, input.spawn?.program);
    return signed(ctx, input);
  }),

  revoke: clientProcedure
    .input(bounded(gatewayRevokeInputSchema))
    .mutation(async ({ ctx, input }) => {
      assertMayHold(ctx.access, input.namespace);
      ctx.use?.startWriting(bytesOfEvent(input.reason, input.user));
      const { id, revokedAt } = await ctx.services.gateway.revoke(input, ctx.actor);
      if (ctx.isForwarded || ctx.services.datacenters.peers.length === 0) {
        return { revocationId: id, revokedAt, unreachable: [] };
      }
      const unreachable = await revokedElsewhere(ctx);
      // Until it was revoked there, a token of there may have been handed over for one that was signed here.
      const again = await ctx.services.gateway.revoke(input, ctx.actor, true);
      return { revocationId: again.id, revokedAt: again.revokedAt, unreachable };
    }),

  rotate: adminProcedure
    .input(bounded(gatewayRotateInputSchema))
    .mutation(({ ctx, input }) => ctx.services.gateway.rotate(input, ctx.actor)),

  route: gatewayProcedure.input(bounded(gatewayRouteInputSchema)).mutation(({ ctx, input }) => {
    if (input.start === undefined) return routed(ctx, input);
    const { namespace, name } = input.key;
    // Who may start it and is refused has tried to connect.
    return refusing(
      () => ({
        ctx,
        resource: { face: 'key', namespace, name },
        idempotencyKey: undefined,
        refuse: (error) => Promise.reject(error),
      }),
      () => routed(ctx, input),
    );
  }),

  handOver: gatewayProcedure
    .input(bounded(gatewayHandOverInputSchema))
    .mutation(({ ctx, input }) => handedOver(ctx, input)),

  /** Its uses are counted as renewals are: apart from everything else. */
  sync: gatewayProcedure.input(bounded(gatewaySyncInputSchema)).mutation(({ ctx, input }) => {
    ctx.use?.countItems(input.uses.length, 'urgent');
    return ctx.services.gateway.sync(input);
  }),

  /** Without the gateways for a caller that is limited to namespaces: what they carry is of all together. */
  list: viewerProcedure.query(({ ctx }) =>
    asOf(ctx.services, async () => ({
      url: ctx.services.gateway.addresses.url,
      items: ctx.access.namespaces === null ? await ctx.services.gateway.list() : [],
    })),
  ),
});

/** Where a key is, which is started if the caller may do that. */
async function routed(ctx: CalledContext, input: z.output<typeof gatewayRouteInputSchema>) {
  const { services, caller, signal, use } = ctx;
  const stopWaiting = use?.startWaiting();
  try {
    const { route } = await writing(
      input.start === undefined ? undefined : use,
      bytesOfGrant(input.key),
      () => services.gateway.route(input, caller, signal),
      ({ spawned }) => spawned,
    );
    return route;
  } finally {
    stopWaiting?.();
  }
}

/**
 * Revokes in all other datacenters too: a token that was handed over is one of theirs. @returns those that did not
 * answer, where it must be done again.
 */
async function revokedElsewhere(ctx: CalledContext): Promise<UnreachableDatacenter[]> {
  const input = await inputElsewhere(ctx);
  const asked = ctx.services.datacenters.peers.map(
    async (datacenter): Promise<UnreachableDatacenter[]> => {
      try {
        const one = await askedOf(ctx, datacenter, input);
        return one.outcome === 'unreachable' ? [one.unreachable] : [];
      } catch (error) {
        // Here it is done: a refusal there, as of a version that knows no gateways, must not hide that.
        return [{ datacenter, since: null, code: describeError(error).leaseholdCode }];
      }
    },
  );
  return (await Promise.all(asked)).flat();
}

/** Where a token opens its key in the datacenter that the key lives in: with a token of that datacenter. */
async function handedOver(
  ctx: CalledContext,
  { token, datacenter }: z.output<typeof gatewayHandOverInputSchema>,
): Promise<Pick<SignedUrl, 'url'>> {
  const { key, access, leaseId, spawn } = await ctx.services.gateway.read(token);
  const input = {
    key,
    access: { ...access, mayStart: spawn !== undefined, grantOnly: leaseId !== undefined },
    spawn,
    leaseId,
  };
  // The token is the right to it, as it is where it was made: a gateway by itself may sign nothing.
  const signer = { ...ctx.access, role: 'client', namespaces: null, programs: null } as const;
  const asked = { ...ctx, procedure: 'gateway.sign', access: signer };
  const { url } = (await sendOn(asked, datacenter, { input })) as SignedUrl;
  // It may have been revoked meanwhile, there before the new one was signed: that one must reach nobody.
  await ctx.services.gateway.read(token);
  return { url };
}

/**
 * A token for what was asked. @throws {LeaseError} `gateway.not_configured`; `key.unheld` and `gateway.grant_over` with
 * `grantOnly`.
 */
async function signed(
  { services, caller, signal, use }: CalledContext,
  { key, access, spawn, leaseId: wanted }: z.output<typeof gatewaySignInputSchema>,
): Promise<SignedUrl> {
  assertGateway(services, key);
  const asked = { key, waitMs: 0, waitFor: 'granted' } as const;
  const leaseId = access.grantOnly
    ? (await services.reservations.connect(asked, caller, signal)).leaseId
    : undefined;
  if (wanted !== undefined && wanted !== leaseId) throw new LeaseError('gateway.grant_over');
  if (spawn !== undefined) use?.startWriting(bytesOfStart(spawn));
  return signedFor(services, { key, access, spawn, leaseId });
}

export interface SignedUrl {
  readonly token: string;
  /** Where it opens its key. */
  readonly url: string;
  /** ISO-8601, by the database's clock. */
  readonly urlExpiresAt: string;
}

/** What is kept of a token until it is over: what it may start. */
export function bytesOfStart(spawn: NonNullable<SignInput['spawn']>): number {
  return bytesOfEvent(JSON.stringify(spawn));
}

/** Signs a token, where a gateway is configured: see {@link assertGateway}. */
export async function signedFor(
  { gateway }: Pick<ApiServices, 'gateway'>,
  input: SignInput,
): Promise<SignedUrl> {
  const { token, expiresAt } = await gateway.sign(input);
  const url = keyUrl(gateway.addresses, input.key, token) ?? '';
  return { token, url, urlExpiresAt: expiresAt };
}

/** @throws {LeaseError} `gateway.not_configured`; `request.invalid` if no address can name the key. */
export function assertGateway({ gateway }: Pick<ApiServices, 'gateway'>, key: Named): void {
  if (gateway.addresses.url === null) throw new LeaseError('gateway.not_configured');
  if (keyUrl(gateway.addresses, key) !== null) return;
  const message = `key.name must not be "${key.name}": only with LEASEHOLD_GATEWAY_HOSTS can a browser name such a key.`;
  throw new LeaseError('request.invalid', message, { details: { field: 'key.name' } });
}
