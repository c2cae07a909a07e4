/** The gateway on the wire: tokens of people, and what gateways ask. */
import { LeaseError, namespaceText } from '@leasehold/keys-core';
import { type GatewayAddresses, keyUrl } from '@leasehold/keys-core/gateway-addresses';
import type { z } from 'zod';
import { assertMayHold, assertMayStart } from '../access.ts';
import { bounded } from '../bounded-input.ts';
import { asOf } from '../context.ts';
import {
  gatewayRevokeInputSchema,
  gatewayRotateInputSchema,
  gatewayRouteInputSchema,
  gatewaySignInputSchema,
  gatewaySyncInputSchema,
} from '../contract/gateway.ts';
import type { CalledContext } from '../forwarding/elsewhere.ts';
import {
  adminProcedure,
  clientProcedure,
  gatewayProcedure,
  router,
  viewerProcedure,
} from '../trpc.ts';
import { bytesOfGrant, writing } from './recording.ts';

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
      const { id, revokedAt } = await ctx.services.gateway.revoke(input, ctx.caller);
      const { reason, ...detail } = input;
      const face = input.name === undefined ? undefined : 'key';
      await ctx.services.audit.write({
        ...ctx.actor,
        action: 'gateway.revoke',
        resource: resourceOf(input),
        reason,
        detail: { ...detail, face },
      });
      return { revocationId: id, revokedAt };
    }),

  rotate: adminProcedure
    .input(bounded(gatewayRotateInputSchema))
    .mutation(async ({ ctx, input: { now, reason } }) => {
      const { kid } = await ctx.services.gateway.rotate(now);
      const resource = `gateway-key:${kid}`;
      await ctx.services.audit.write({
        ...ctx.actor,
        action: 'gateway.rotate',
        resource,
        reason,
        detail: { now },
      });
      return { kid };
    }),

  route: gatewayProcedure
    .input(bounded(gatewayRouteInputSchema))
    .mutation(async ({ ctx, input }) => {
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
    }),

  /** Its uses are counted as renewals are: apart from everything else. */
  sync: gatewayProcedure.input(bounded(gatewaySyncInputSchema)).mutation(({ ctx, input }) => {
    ctx.use?.countItems(input.uses.length, 'urgent');
    return ctx.services.gateway.sync(input);
  }),

  list: viewerProcedure.query(({ ctx }) =>
    asOf(ctx.services, async () => ({
      url: ctx.services.gateway.addresses.url,
      items: await ctx.services.gateway.list(),
    })),
  ),
});

/** A token, and the address at which it opens its key. @throws {LeaseError} `gateway.not_configured`. */
async function signed(
  { services, caller, signal }: CalledContext,
  { key, access, spawn }: z.output<typeof gatewaySignInputSchema>,
): Promise<{ token: string; url: string; urlExpiresAt: string }> {
  const { gateway, reservations } = services;
  assertGateway(gateway.addresses);
  const asked = { key, waitMs: 0, waitFor: 'granted' } as const;
  const leaseId = access.grantOnly
    ? (await reservations.connect(asked, caller, signal)).leaseId
    : undefined;
  const { token, expiresAt } = await gateway.sign({ key, access, spawn, leaseId });
  return { token, url: keyUrl(gateway.addresses, key, token) ?? '', urlExpiresAt: expiresAt };
}

/** @throws {LeaseError} `gateway.not_configured`. */
function assertGateway({ url }: GatewayAddresses): void {
  if (url === null) throw new LeaseError('gateway.not_configured');
}

/** What the audit names: the key, or the namespace. */
function resourceOf({ namespace, name }: z.output<typeof gatewayRevokeInputSchema>): string {
  return name === undefined
    ? `namespace:${namespaceText(namespace)}`
    : `key:${namespaceText(namespace)}/${name}`;
}
