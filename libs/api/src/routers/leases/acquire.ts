import { LeaseError } from '@leasehold/keys-core';
import type { z } from 'zod';
import { assertMayHold } from '../../access/access.ts';
import { bytesOfGrant, writing } from '../../access/event-bytes.ts';
import type { ApiServices } from '../../context.ts';
import { acquireItemSchema, type acquireManyInputSchema } from '../../contract/leases.ts';
import {
  isElsewhere,
  sendOn,
  withoutDatacenter,
  type CalledContext,
} from '../../forwarding/elsewhere.ts';
import { askedFor, refused, refusing } from '../refusing.ts';
import { callOf, failedItem, oneByOne, type FailedItem } from './one-by-one.ts';

type Acquired = Awaited<ReturnType<ApiServices['leases']['acquire']>>;

/** What is asked for, with the other datacenter that it is to be carried out in, if any. */
type Wanted = z.output<typeof acquireItemSchema> & {
  readonly waitMs: number;
  readonly localTimeMs: number;
};

/** Acquires a lease of this datacenter. @throws {LeaseError} `auth.forbidden`. */
export async function acquire(
  ctx: CalledContext,
  input: Omit<Wanted, 'datacenter'>,
): Promise<Acquired> {
  const { key, ...rest } = input;
  assertMayHold(ctx.access, input.namespace);
  await ctx.use?.mayHold(1);
  const wanted = { ...rest, name: key };
  const answer = await writing(
    ctx.use,
    bytesOfGrant(wanted),
    () => ctx.services.leases.acquire(wanted, ctx.caller, ctx.life),
    ({ outcome }) => outcome === 'granted',
  );
  if (answer.outcome === 'granted') ctx.use?.noteHeld(1);
  return answer;
}

/** Records why an acquire is refused, and throws it: see `LeaseService.refuse`. */
export function refuse(
  ctx: CalledContext,
  { key, datacenter, ...rest }: Wanted,
  error: LeaseError,
): Promise<Acquired> {
  const elsewhere = isElsewhere(ctx, datacenter) ? { datacenter } : {};
  return ctx.services.leases.refuse({ ...rest, ...elsewhere, name: key }, ctx.caller, error);
}

/** Acquires many, each in the datacenter that it names: one call to each, all at the same time. */
export async function acquireMany(
  ctx: CalledContext,
  { items, localTimeMs }: Omit<z.output<typeof acquireManyInputSchema>, 'witness'>,
): Promise<{ results: (Acquired | FailedItem)[] }> {
  await ctx.use?.countItems(items.length);
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
        {
          ctx,
          ...askedFor('lease', { ...item, name: item.key }),
          idempotencyKey: item.idempotencyKey,
          refuse: (error) => refuse(ctx, wanted, error),
        },
        () => acquire(ctx, wanted),
      );
    },
  );
}

/** If the call to the other datacenter fails, each of its items is answered with that error. */
async function acquireThere(
  ctx: CalledContext,
  datacenter: string,
  { items, localTimeMs }: { readonly items: readonly unknown[]; readonly localTimeMs: number },
): Promise<(Acquired | FailedItem)[]> {
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
}
