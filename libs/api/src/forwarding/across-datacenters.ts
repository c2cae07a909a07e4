/**
 * Lists of one datacenter or of all. `all` goes through them one by one: this one first, then the
 * others by name, each in the requested order; a page may hold the end of one list and the
 * beginning of the next. A search by a part of a name takes long where few have it: for its first page all
 * are asked at the same time. A datacenter that cannot answer is named in `unreachable`, and is not
 * asked while it is known to be unreachable.
 */
import {
  compareFound,
  LeaseError,
  type Count,
  type DatedPage,
  type ErrorCode,
} from '@leasehold/keys-core';
import type { LeaseTree, LeaseTreeNode } from '@leasehold/keys-core/leases';
import type { FindInput, Found } from '@leasehold/keys-core/search';
import { jsonOf } from '@leasehold/service-kit';
import { z } from 'zod';
import type { UnreachableDatacenter } from '../context.ts';
import { cursorSchema, datacenterSchema } from '../contract/common.ts';
import { describeError } from '../error-map.ts';
import {
  assertKnown,
  inputElsewhere,
  isElsewhere,
  sendOn,
  type CalledContext,
} from './elsewhere.ts';

interface ListInput {
  readonly datacenter?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
  /** A part of a name: a list may be read whole for it. */
  readonly contains?: string | undefined;
}

/** A page, and the datacenters that are missing from it. */
type ListAnswer<Item> = DatedPage<Item> & { readonly unreachable: UnreachableDatacenter[] };

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

function beginsSearch({ contains, cursor }: Omit<ListInput, 'datacenter'>): boolean {
  return contains !== undefined && cursor === undefined;
}

type PageOf<Item> = (place: ListPlace, limit: number) => Promise<Asked<DatedPage<Item>>>;

/** Pages of places that are all asked now, each for a whole page. */
function askedAtOnce<Item>(
  places: readonly ListPlace[],
  pageOf: PageOf<Item>,
  limit: number,
): PageOf<Item> {
  const early = new Map(places.map((place) => [place, pageOf(place, limit)]));
  // One that fails is looked at in its turn, if that comes.
  for (const page of early.values()) page.catch(() => undefined);
  return async (place, left) => {
    const found = await early.get(place);
    // Where a shorter page ends, only its own datacenter can tell.
    const isTooLong = found?.outcome === 'answered' && found.answer.items.length > left;
    return found === undefined || isTooLong ? pageOf(place, left) : found;
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
  const pageOf: PageOf<Item> = async (place, limit) => {
    const { datacenter, cursor } = place;
    return isElsewhere(ctx, datacenter)
      ? askedOf(ctx, datacenter, { ...raw, cursor, limit }, true)
      : { outcome: 'answered', answer: await read(ctx, { ...input, cursor, limit }) };
  };
  const places = names.map((datacenter, index) =>
    index === 0 ? from : { datacenter, cursor: undefined },
  );
  const readPage = beginsSearch(input) ? askedAtOnce(places, pageOf, input.limit) : pageOf;
  const items: Item[] = [];
  const unreachable: UnreachableDatacenter[] = [];
  for (const [index, place] of places.entries()) {
    const { datacenter } = place;
    const left = input.limit - items.length;
    const asked = left === 0 ? undefined : await readPage(place, left);
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

/** Counts the rows of this datacenter's own list. */
type CountRead<Input> = (ctx: CalledContext, input: Omit<Input, 'datacenter'>) => Promise<Count>;

/**
 * The resolver of a procedure that counts the rows of a list: of one datacenter, or of all, added up. Of a
 * datacenter that cannot answer nothing is counted, and the count is then no longer exact.
 * @throws {LeaseError} `reservation.unknown_datacenter`.
 */
export function counted<Input extends { readonly datacenter?: string | undefined }>(
  read: CountRead<Input>,
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
      ...others.map(async (name) => countOf(await askedOf<Count>(ctx, name, raw, isAll))),
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

type TreeAnswer = LeaseTree & { readonly unreachable: UnreachableDatacenter[] };

/**
 * The tree of one datacenter, or of all with the counts of each namespace added up.
 * @throws {LeaseError} `reservation.unknown_datacenter`.
 */
export async function treeAt<Input extends { readonly datacenter?: string | undefined }>(
  ctx: CalledContext,
  input: Input,
  read: (input: Omit<Input, 'datacenter'>) => Promise<LeaseTree>,
): Promise<TreeAnswer> {
  const { datacenter, ...rest } = input;
  const { services, isForwarded } = ctx;
  const isAll = datacenter === 'all';
  if (!isAll && !isElsewhere(ctx, datacenter)) return { ...(await read(rest)), unreachable: [] };
  const raw = await inputElsewhere(ctx);
  const others = isAll ? (isForwarded ? [] : services.datacenters.peers) : [datacenter];
  const [here, ...asked] = await Promise.all([
    isAll ? read(rest) : undefined,
    ...others.map((name): Promise<Asked<LeaseTree>> => askedOf(ctx, name, raw, isAll)),
  ]);
  const trees = asked.flatMap((one) => (one.outcome === 'answered' ? [one.answer] : []));
  const found = here === undefined ? trees : [here, ...trees];
  return {
    items: sumOf(found),
    isComplete: found.every(({ isComplete }) => isComplete),
    asOf: here?.asOf ?? trees[0]?.asOf ?? (await services.now()),
    unreachable: asked.flatMap((one) => (one.outcome === 'unreachable' ? [one.unreachable] : [])),
  };
}

/** The counts of each namespace, added up, in the order of the namespaces. */
function sumOf(trees: readonly LeaseTree[]): LeaseTreeNode[] {
  if (trees.length === 1 && trees[0] !== undefined) return trees[0].items;
  const nodes = new Map<string, LeaseTreeNode>();
  for (const node of trees.flatMap(({ items }) => items)) {
    const before = nodes.get(node.namespace);
    nodes.set(node.namespace, before === undefined ? node : added(before, node));
  }
  return [...nodes.values()].sort((a, b) => (a.namespace < b.namespace ? -1 : 1));
}

function added(one: LeaseTreeNode, other: LeaseTreeNode): LeaseTreeNode {
  return {
    namespace: one.namespace,
    held: one.held + other.held,
    expiring: one.expiring + other.expiring,
    expired: one.expired + other.expired,
    free: one.free + other.free,
    waiters: one.waiters + other.waiters,
  };
}

// A search of one datacenter, or of all of them at once.

/** What was found, and the datacenters that were not searched. */
type FoundAnswer = Found & { readonly unreachable: UnreachableDatacenter[] };

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
    ...names.map((name) => foundIn(ctx, name, sent, isAll)),
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

async function foundIn(
  ctx: CalledContext,
  datacenter: string,
  input: Record<string, unknown>,
  isOneOfSeveral: boolean,
) {
  try {
    return await askedOf<Found>(ctx, datacenter, input, isOneOfSeveral);
  } catch (error) {
    const { leaseholdCode: code } = describeError(error);
    if (code === 'reservation.unknown_datacenter') throw error;
    return { outcome: 'unreachable' as const, unreachable: { datacenter, since: null, code } };
  }
}

type Asked<Answer> =
  | { readonly outcome: 'answered'; readonly answer: Answer }
  | { readonly outcome: 'unreachable'; readonly unreachable: UnreachableDatacenter };

/** What a datacenter answers, besides failures, when it cannot answer now. */
const NOT_NOW: ReadonlySet<ErrorCode> = new Set(['request.deadline', 'request.rate_limited']);

/**
 * Sends the same request to another datacenter, unless that is known to be unreachable. One that
 * cannot answer now counts as unreachable; errors that the caller has caused are thrown. The answer
 * has this procedure's own type, because it is the same procedure.
 * @param isOneOfSeveral as in `ForwardedCall`.
 * @throws {LeaseError} `reservation.unknown_datacenter`, and what the procedure refuses.
 */
export async function askedOf<Answer>(
  ctx: CalledContext,
  datacenter: string,
  input: Readonly<Record<string, unknown>>,
  isOneOfSeveral = false,
): Promise<Asked<Answer>> {
  assertKnown(ctx, datacenter);
  const { datacenters } = ctx.services;
  const away = datacenters.away(datacenter);
  if (away !== undefined) return { outcome: 'unreachable', unreachable: away };
  try {
    const answer = await sendOn(ctx, datacenter, { input, isOneOfSeveral });
    return { outcome: 'answered', answer: answer as Answer };
  } catch (error) {
    const { leaseholdCode: code, httpStatus } = describeError(error);
    if (httpStatus < 500 && !NOT_NOW.has(code)) throw error;
    const since = datacenters.away(datacenter)?.since ?? null;
    return { outcome: 'unreachable', unreachable: { datacenter, since, code } };
  }
}
