/** A search of one datacenter, or of all of them at once. */
import { compareFound } from '@leasehold/keys-core';
import type { FindInput, Found } from '@leasehold/keys-core/search';
import type { UnreachableDatacenter } from '../services/datacenters.ts';
import { askedOf } from './asked.ts';
import { describeError } from '../error-map.ts';
import { inputElsewhere, isElsewhere, type CalledContext } from './elsewhere.ts';

/** What was found, and the datacenters that were not searched. */
export type FoundAnswer = Found & { readonly unreachable: UnreachableDatacenter[] };

/**
 * Searches where the input says. All are asked at the same time, and the best of all answers are
 * kept. One that cannot answer is named, also if it is of a version that cannot search.
 * @throws {LeaseError} `reservation.unknown_datacenter`.
 */
export async function findWhere(
  ctx: CalledContext,
  { datacenter, ...input }: FindInput & { readonly datacenter?: string | undefined },
): Promise<FoundAnswer> {
  const here = (): Promise<Found> => ctx.services.search.find(input, ctx.caller);
  if (datacenter !== 'all' && !isElsewhere(ctx, datacenter)) {
    return { ...(await here()), unreachable: [] };
  }
  const isAll = datacenter === 'all';
  const names = isAll ? (ctx.isForwarded ? [] : ctx.services.datacenters.peers) : [datacenter];
  const sent = await inputElsewhere(ctx);
  const [own, ...others] = await Promise.all([
    isAll ? here() : undefined,
    ...names.map((name) => foundIn(ctx, name, sent)),
  ]);
  const answers = [
    ...(own === undefined ? [] : [own]),
    ...others.flatMap((asked) => (asked.outcome === 'answered' ? [asked.answer] : [])),
  ];
  return {
    items: answers
      .flatMap(({ items }) => items)
      .sort(compareFound)
      .slice(0, input.limit),
    failed: [...new Set(answers.flatMap(({ failed }) => failed))],
    isComplete: answers.every(({ isComplete }) => isComplete),
    asOf: own?.asOf ?? (await ctx.services.now()),
    unreachable: others.flatMap((asked) =>
      asked.outcome === 'unreachable' ? [asked.unreachable] : [],
    ),
  };
}

async function foundIn(ctx: CalledContext, datacenter: string, input: Record<string, unknown>) {
  try {
    return await askedOf<Found>(ctx, datacenter, input);
  } catch (error) {
    const { leaseholdCode: code } = describeError(error);
    if (code === 'reservation.unknown_datacenter') throw error;
    return { outcome: 'unreachable' as const, unreachable: { datacenter, since: null, code } };
  }
}
