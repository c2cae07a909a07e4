/**
 * Lists of one datacenter or of all. `all` goes through them one by one: this one first, then the
 * others by name, each in the requested order; a page may hold the end of one list and the
 * beginning of the next. A datacenter that cannot answer is named in `unreachable`, and is not
 * asked while it is known to be unreachable.
 */
import { LeaseError, type DatedPage } from '@leasehold/keys-core';
import { jsonOf } from '@leasehold/service-kit';
import { z } from 'zod';
import { cursorSchema, datacenterSchema } from '../contract/common.ts';
import type { UnreachableDatacenter } from '../services/datacenters.ts';
import { askedOf, type Asked } from './asked.ts';
import { assertKnown, inputElsewhere, isElsewhere, type CalledContext } from './elsewhere.ts';

interface ListInput {
  readonly datacenter?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** A page, and the datacenters that are missing from it. */
export type ListAnswer<Item> = DatedPage<Item> & { readonly unreachable: UnreachableDatacenter[] };

/** Reads a page of this datacenter's own list. */
type Read<Input, Item> = (
  ctx: CalledContext,
  input: Omit<Input, 'datacenter'>,
) => Promise<DatedPage<Item>>;

/**
 * The resolver of a procedure that answers with a page of the list that its input asks for.
 * @throws {LeaseError} `reservation.unknown_datacenter`, and what the list itself throws.
 */
export function listed<Input extends ListInput, Item>(
  read: Read<Input, Item>,
): (call: { readonly ctx: CalledContext; readonly input: Input }) => Promise<ListAnswer<Item>> {
  return async ({ ctx, input }) => {
    const { datacenter, ...rest } = input;
    if (datacenter === 'all') return listAll(ctx, rest, read);
    if (!isElsewhere(ctx, datacenter)) return { ...(await read(ctx, rest)), unreachable: [] };
    const asked = await askedOf<DatedPage<Item>>(ctx, datacenter, await inputElsewhere(ctx));
    if (asked.outcome === 'answered') return { ...asked.answer, unreachable: [] };
    const asOf = await ctx.services.now();
    return { items: [], nextCursor: null, asOf, unreachable: [asked.unreachable] };
  };
}

async function listAll<Input extends ListInput, Item>(
  ctx: CalledContext,
  input: Omit<Input, 'datacenter'>,
  read: Read<Input, Item>,
): Promise<ListAnswer<Item>> {
  const asOf = await ctx.services.now();
  const from = placeOf(ctx, input.cursor);
  const names = namesFrom(ctx, from.datacenter);
  const raw = await inputElsewhere(ctx);
  const pageOf = async (place: ListPlace, limit: number): Promise<Asked<DatedPage<Item>>> => {
    const { datacenter, cursor } = place;
    return isElsewhere(ctx, datacenter)
      ? askedOf(ctx, datacenter, { ...raw, cursor, limit })
      : { outcome: 'answered', answer: await read(ctx, { ...input, cursor, limit }) };
  };
  const items: Item[] = [];
  const unreachable: UnreachableDatacenter[] = [];
  for (const [index, datacenter] of names.entries()) {
    const place = index === 0 ? from : { datacenter, cursor: undefined };
    const left = input.limit - items.length;
    const asked = left === 0 ? undefined : await pageOf(place, left);
    if (asked?.outcome === 'unreachable') {
      unreachable.push(asked.unreachable);
      continue;
    }
    items.push(...(asked?.answer.items ?? []));
    const cursor = asked === undefined ? place.cursor : asked.answer.nextCursor;
    if (asked !== undefined && cursor === null) continue;
    // The page ends here. Unreachable datacenters that are still to come are reported all the same.
    unreachable.push(
      ...names.slice(index).flatMap((name) => ctx.services.datacenters.away(name) ?? []),
    );
    const nextCursor = encodePlace({ datacenter, cursor: cursor ?? undefined });
    return { items, nextCursor, asOf, unreachable };
  }
  return { items, nextCursor: null, asOf, unreachable };
}

/** @throws {LeaseError} `request.invalid`, `reservation.unknown_datacenter`. */
function placeOf(ctx: CalledContext, cursor: string | undefined): ListPlace {
  if (cursor === undefined) return { datacenter: ctx.services.datacenter, cursor: undefined };
  const place = decodePlace(cursor);
  if (isElsewhere(ctx, place.datacenter)) assertKnown(ctx, place.datacenter);
  return place;
}

/** The datacenters that a list goes through, beginning with `first`: this one, then the others by name. */
function namesFrom({ services, isForwarded }: CalledContext, first: string): string[] {
  const names = [services.datacenter, ...(isForwarded ? [] : services.datacenters.peers)];
  return names.slice(names.indexOf(first));
}

/** Where a list of all datacenters continues: in which datacenter, and where in its own list. */
interface ListPlace {
  readonly datacenter: string;
  readonly cursor: string | undefined;
}

const placeSchema = z.tuple([datacenterSchema, cursorSchema.optional()]);

function encodePlace({ datacenter, cursor }: ListPlace): string {
  const parts = cursor === undefined ? [datacenter] : [datacenter, cursor];
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

/** @throws {LeaseError} `request.invalid`. */
function decodePlace(text: string): ListPlace {
  const parsed = placeSchema.safeParse(jsonOf(Buffer.from(text, 'base64url').toString()));
  if (!parsed.success) {
    throw new LeaseError('request.invalid', 'cursor: must be one that a list has answered', {
      details: { field: 'cursor' },
    });
  }
  const [datacenter, cursor] = parsed.data;
  return { datacenter, cursor };
}
