import type { Count } from '@leasehold/keys-core';
import { askedOf, type Asked } from './asked.ts';
import { inputElsewhere, isElsewhere, type CalledContext } from './elsewhere.ts';

/** Counts the rows of this datacenter's own list. */
type Read<Input> = (ctx: CalledContext, input: Omit<Input, 'datacenter'>) => Promise<Count>;

/**
 * The resolver of a procedure that counts the rows of a list: of one datacenter, or of all, added up. Of a
 * datacenter that cannot answer nothing is counted, and the count is then no longer exact.
 * @throws {LeaseError} `reservation.unknown_datacenter`.
 */
export function counted<Input extends { readonly datacenter?: string | undefined }>(
  read: Read<Input>,
): (call: { readonly ctx: CalledContext; readonly input: Input }) => Promise<Count> {
  return async ({ ctx, input }) => {
    const { datacenter, ...rest } = input;
    const isAll = datacenter === 'all';
    if (!isAll && !isElsewhere(ctx, datacenter)) return read(ctx, rest);
    const raw = await inputElsewhere(ctx);
    const peers = ctx.isForwarded ? [] : ctx.services.datacenters.peers;
    const others = isAll ? peers : [datacenter];
    const counts = await Promise.all([
      ...(isAll ? [read(ctx, rest)] : []),
      ...others.map(async (name) => countOf(await askedOf<Count>(ctx, name, raw))),
    ]);
    return {
      count: counts.reduce((sum, { count }) => sum + count, 0),
      isExact: counts.every(({ isExact }) => isExact),
    };
  };
}

function countOf(asked: Asked<Count>): Count {
  return asked.outcome === 'answered' ? asked.answer : { count: 0, isExact: false };
}
