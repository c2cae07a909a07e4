/** Why callers wait: who made them wait, and which leases are taken in opposite orders. */
import type { Caller } from '../kernel/face-types.ts';
import { isWithinNamespace, type Resource } from '../kernel/resource.ts';
import { mayRead } from '../lists/index.ts';
import type { Store } from '../postgres/open-store.ts';
import { isoOf } from '../postgres/sql.ts';
import type {
  Blocker,
  LeaseWhy,
  MostWaitedView,
  OppositeOrders,
  OrderSide,
  MostWaitedInput,
  MostWaitedPage,
} from './lease-types.ts';
import { readTotal } from './sql/permits.ts';
import {
  HELD_BEFORE_MAX,
  type Hold,
  type Nested,
  readHolds,
  readMostWaited,
  readNested,
  readWaits,
  type Wait,
} from './sql/waits.ts';

const BLOCKERS_SHOWN_MAX = 20;
const NOW_SHOWN_MAX = 20;
const PAIRS_SHOWN_MAX = 20;
const HOLDERS_OF_ORDER_MAX = 3;
/** Of each resource in the summary. */
const BLOCKERS_OF_ONE_MAX = 3;

/**
 * Why callers wait for a resource: who has it and who waits now, who made others wait within the window, and what is
 * taken in an opposite order. Of one that the caller may not see it tells what it tells of one that nobody ever had.
 */
export async function explainWaits(
  store: Store,
  resource: Resource,
  { windowMinutes, caller }: { readonly windowMinutes: number; readonly caller: Caller },
): Promise<LeaseWhy> {
  const { reads, datacenter } = store;
  const isVisible = mayRead(resource, caller);
  const [{ holds, from: holdsFrom, asOf }, found, nested, total] = await Promise.all([
    readHolds(reads, resource, windowMinutes),
    readWaits(reads, resource, windowMinutes),
    readNested(reads, { namespaces: caller.namespaces, windowMinutes }),
    isVisible && resource.face === 'lease' ? readTotal(reads, resource.namespace) : null,
  ]);
  const shown = isVisible ? { holds, waits: found.waits } : { holds: [], waits: [] };
  const from = isVisible ? Math.max(holdsFrom, found.from) : asOf - windowMinutes * 60_000;
  const window = { from, asOf };
  const holders = shown.holds.filter(({ endedAt }) => endedAt === null);
  const waiters = shown.waits.filter(({ endedAt }) => endedAt === null);
  const opposite = isVisible ? oppositeOrders(nested.grants, resource) : [];
  return {
    holders: holders
      .slice(0, NOW_SHOWN_MAX)
      .map(({ beganAt, endedAt: _end, remainingMs, ...hold }) => ({
        ...hold,
        since: isoOf(beganAt),
        remainingMs: Math.max(0, Math.round(remainingMs ?? 0)),
      })),
    holderCount: holders.length,
    total,
    waiters: waiters.slice(0, NOW_SHOWN_MAX).map(({ waiter, beganAt }, index) => ({
      place: index + 1,
      waiter,
      since: isoOf(beganAt),
      waitedMs: Math.max(0, Math.round(asOf - beganAt)),
    })),
    waiterCount: waiters.length,
    fromAt: isoOf(from),
    isComplete: isWhole(window, windowMinutes),
    waits: sumOf(shown.waits, window),
    blockers: blockersOf(shown.holds, shown.waits, window).slice(0, BLOCKERS_SHOWN_MAX),
    opposite: opposite.slice(0, PAIRS_SHOWN_MAX),
    oppositeFromAt: isoOf(nested.from),
    datacenter,
    asOf: isoOf(asOf),
  };
}

/** What was waited for longest within the window, who made others wait, and what is taken in opposite orders. */
export async function summarizeWaits(
  store: Store,
  { namespace = '', windowMinutes, limit }: MostWaitedInput,
  { namespaces }: Caller,
): Promise<MostWaitedPage> {
  const { reads, datacenter } = store;
  const [{ items, from, asOf }, nested] = await Promise.all([
    readMostWaited(reads, { namespace, namespaces, windowMinutes }, limit),
    readNested(reads, { namespaces, windowMinutes }),
  ]);
  const opposite = oppositeOrders(nested.grants).filter(({ one, other }) =>
    [one, other].some((lease) => isWithinNamespace(lease.namespace, namespace)),
  );
  const explained: MostWaitedView[] = [];
  // One after the other: these reads have few connections, and a page must not keep all of them.
  for (const { waitedMs, longestMs, ...item } of items) {
    const { holds, from: holdsFrom } = await readHolds(reads, item, windowMinutes);
    const { waits, from: waitsFrom } = await readWaits(reads, item, windowMinutes);
    const window = { from: Math.max(from, holdsFrom, waitsFrom), asOf };
    explained.push({
      ...item,
      waitedMs: Math.round(waitedMs),
      longestMs: Math.round(longestMs),
      blockers: blockersOf(holds, waits, window).slice(0, BLOCKERS_OF_ONE_MAX),
    });
  }
  return {
    items: explained,
    fromAt: isoOf(from),
    isComplete: isWhole({ from, asOf }, windowMinutes),
    opposite: opposite.slice(0, PAIRS_SHOWN_MAX),
    oppositeFromAt: isoOf(nested.from),
    datacenter,
    asOf: isoOf(asOf),
  };
}

/** Instants in epoch milliseconds. */
interface Window {
  readonly from: number;
  readonly asOf: number;
}

/** The clock is read once for each statement: that may make a difference of seconds. */
const WHOLE_WITHIN_MS = 10_000;

function isWhole({ from, asOf }: Window, windowMinutes: number): boolean {
  return from - (asOf - windowMinutes * 60_000) < WHOLE_WITHIN_MS;
}

/** How long two spans of time, as far as they are in the window, were at the same time. */
function overlapMs(
  one: { readonly beganAt: number; readonly endedAt: number | null },
  other: { readonly beganAt: number; readonly endedAt: number | null },
  { from, asOf }: Window,
): number {
  const endsAt = Math.min(one.endedAt ?? asOf, other.endedAt ?? asOf, asOf);
  return endsAt - Math.max(one.beganAt, other.beganAt, from);
}

function sumOf(waits: readonly Wait[], window: Window): LeaseWhy['waits'] {
  let waitedMs = 0;
  let longestMs = 0;
  let gaveUp = 0;
  for (const wait of waits) {
    const ms = Math.max(0, overlapMs(wait, wait, window));
    waitedMs += ms;
    longestMs = Math.max(longestMs, ms);
    if (wait.outcome !== null && wait.outcome !== 'granted') gaveUp += 1;
  }
  return {
    count: waits.length,
    waitedMs: Math.round(waitedMs),
    longestMs: Math.round(longestMs),
    gaveUp,
  };
}

/**
 * Who made others wait, by holder and caller, the most first: each wait counts for those who held the resource during
 * it, for as long as both lasted; where several held it at once, for each of them.
 */
export function blockersOf(
  holds: readonly Hold[],
  waits: readonly Wait[],
  window: Window,
): Blocker[] {
  const found = new Map<string, { -readonly [Field in keyof Blocker]: Blocker[Field] }>();
  for (const { hold, waitedMs, longestMs } of costsOf(holds, waits, window)) {
    if (waitedMs === 0) continue;
    const { holder, actor } = hold;
    const id = JSON.stringify([holder, actor]);
    const sum = found.get(id) ?? { holder, actor, grants: 0, waitedMs: 0, longestMs: 0 };
    sum.grants += 1;
    sum.waitedMs += waitedMs;
    sum.longestMs = Math.max(sum.longestMs, longestMs);
    found.set(id, sum);
  }
  return [...found.values()]
    .map((one) => ({
      ...one,
      waitedMs: Math.round(one.waitedMs),
      longestMs: Math.round(one.longestMs),
    }))
    .sort((a, b) => b.waitedMs - a.waitedMs || (a.holder < b.holder ? -1 : 1));
}

/** For how long each grant made others wait: all of them together, and the longest. */
function costsOf(
  holds: readonly Hold[],
  waits: readonly Wait[],
  window: Window,
): { readonly hold: Hold; waitedMs: number; longestMs: number }[] {
  const costs = [...holds]
    .sort((a, b) => a.beganAt - b.beganAt)
    .map((hold) => ({ hold, waitedMs: 0, longestMs: 0 }));
  // The latest end up to each: where to begin to look is found by halving.
  let latest = Number.NEGATIVE_INFINITY;
  const endsUpTo = costs.map(
    ({ hold: { endedAt } }) => (latest = Math.max(latest, endedAt ?? window.asOf)),
  );
  for (const wait of waits) {
    const beganAt = Math.max(wait.beganAt, window.from);
    const endsAt = wait.endedAt ?? window.asOf;
    for (const cost of costs.slice(firstAfter(endsUpTo, beganAt))) {
      if (cost.hold.beganAt >= endsAt) break;
      // The clock is read for a grant before it is read for the end of its wait.
      const isOwn = cost.hold.leaseId === wait.ticketId;
      const ms = isOwn ? 0 : Math.max(0, overlapMs(cost.hold, wait, window));
      cost.waitedMs += ms;
      cost.longestMs = Math.max(cost.longestMs, ms);
    }
  }
  return costs;
}

/** The first place of an ascending list with a number beyond this one. */
function firstAfter(ascending: readonly number[], limit: number): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ascending[middle] ?? 0) > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** That one lease was taken while another was held. */
interface Order {
  readonly held: Resource;
  readonly taken: Resource;
  times: number;
  lastAt: number;
  /** By holder and caller, in the order in which they were first seen. */
  readonly by: Map<string, OrderSide['by'][number]>;
}

/**
 * The pairs of leases of which one holder took the second while it held the first, and one, the same or another, the
 * first while it held the second: they can wait for each other forever. Those that happened most often come first.
 *
 * A holder with more than {@link HELD_BEFORE_MAX} leases does several things at once, and counts for nothing; so does
 * what was granted in one transaction.
 *
 * @param grants as {@link readNested} has them.
 * @param of only pairs with this one.
 */
export function oppositeOrders(grants: readonly Nested[], of?: Resource): OppositeOrders[] {
  const orders = ordersOf(grants);
  const pairs: (OppositeOrders & { readonly times: number })[] = [];
  for (const [id, order] of orders) {
    const { held, taken } = order;
    const opposite = orders.get(pairId(taken, held));
    // Each pair is met twice.
    if (opposite === undefined || id > pairId(taken, held)) continue;
    if (of !== undefined && ![held, taken].some((lease) => textOf(lease) === textOf(of))) continue;
    pairs.push({
      one: held,
      other: taken,
      oneFirst: sideOf(order),
      otherFirst: sideOf(opposite),
      times: Math.min(order.times, opposite.times),
    });
  }
  return pairs.sort((a, b) => b.times - a.times).map(({ times: _times, ...pair }) => pair);
}

function ordersOf(grants: readonly Nested[]): Map<string, Order> {
  const orders = new Map<string, Order>();
  const openOf = new Map<string, Set<Nested>>();
  const steps = grants.flatMap((grant) => [
    { id: grant.id, grant, isEnd: false },
    ...(grant.endId === null ? [] : [{ id: grant.endId, grant, isEnd: true }]),
  ]);
  for (const { grant, isEnd } of steps.sort((a, b) => a.id - b.id)) {
    const holder = JSON.stringify([grant.principal, grant.holder]);
    const open = openOf.get(holder) ?? new Set();
    openOf.set(holder, open);
    if (isEnd) {
      open.delete(grant);
      continue;
    }
    if (open.size <= HELD_BEFORE_MAX) {
      for (const held of open) {
        const isOrdered = held.transaction !== grant.transaction;
        if (isOrdered && textOf(held) !== textOf(grant)) note(orders, held, grant);
      }
    }
    open.add(grant);
  }
  return orders;
}

function note(orders: Map<string, Order>, held: Nested, taken: Nested): void {
  const id = pairId(held, taken);
  const order = orders.get(id) ?? {
    held: resourceOf(held),
    taken: resourceOf(taken),
    times: 0,
    lastAt: 0,
    by: new Map<string, OrderSide['by'][number]>(),
  };
  const { holder, actor, at } = taken;
  order.times += 1;
  order.lastAt = Math.max(order.lastAt, at);
  if (order.by.size < HOLDERS_OF_ORDER_MAX) {
    order.by.set(JSON.stringify([holder, actor]), { holder, actor });
  }
  orders.set(id, order);
}

function sideOf({ times, lastAt, by }: Order): OrderSide {
  return { times, lastAt: isoOf(lastAt), by: [...by.values()] };
}

function resourceOf({ face, namespace, name }: Resource): Resource {
  return { face, namespace, name };
}

function textOf({ face, namespace, name }: Resource): string {
  return JSON.stringify([face, namespace, name]);
}

function pairId(held: Resource, taken: Resource): string {
  return `${textOf(held)} ${textOf(taken)}`;
}
