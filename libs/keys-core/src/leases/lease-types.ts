import type { ActEntry } from '../access/index.ts';
import type { Actor } from '../kernel/access.ts';
import type {
  Caller,
  Count,
  DatedPage,
  EventView,
  FilterOf,
  GrantListInput,
  GrantView,
  HolderAt,
  Page,
  PageInput,
  RenewalAct,
  RenewalChange,
  Revoked,
  WaiterView,
} from '../kernel/face-types.ts';
import type { Deadlines } from '../kernel/ladder.ts';
import {
  type GrantRef,
  type RefusalReason,
  type ReleaseOutcome,
  type UpdateOutcome,
  type Permits,
  type PoolUse,
  type SlotMode,
} from '../kernel/lease.ts';
import type { Face, Named, Resource } from '../kernel/resource.ts';
import type { NamespaceCounts } from '../lists/index.ts';
import type { WaitInOrder } from './environment-waiting.ts';

/** When the holder renews, and from when it must not act any more, in its own clock. */
export interface LeaseDeadlines {
  readonly renewAtMs: Deadlines['renewAtMs'];
  readonly loseAtMs: Deadlines['hardTerminateAtMs'];
}

/** What a service asks for. Bounds have been checked by the caller. */
export interface AcquireInput extends WaitInOrder {
  /** Segments joined by `.`. */
  readonly namespace: string;
  readonly name: string;
  /** 1 s to 24 h; by default the face's own. */
  readonly ttlMs?: number | undefined;
  /** How long to wait in line; 0 answers at once. */
  readonly waitMs: number;
  /**
   * How long this call waits at most, by default `LIMITS.waitMsMax`. A longer wait goes on by the same request, sent
   * again with the same idempotency key and what is left of `waitMs`.
   */
  readonly callMs?: number | undefined;
  readonly holder: string;
  /** `shared` beside others that share it, `permit` as one of a declared number; by default alone. */
  readonly mode?: SlotMode | undefined;
  /** What an environment is leased for; empty for a lease. */
  readonly action?: string | undefined;
  readonly comment?: string | undefined;
  readonly metadata?: unknown;
  /**
   * Whether the caller renews what it is granted before it uses it: then a grant whose answer is lost is
   * free again within a second, instead of after its TTL. With `waitMs`, what it has waited for.
   */
  readonly confirms?: boolean | undefined;
  /** One attempt, one answer: sending the same request again with it is safe for 24 h. */
  readonly idempotencyKey?: string | undefined;
  /** The other datacenter that it was to be carried out in, for a request that was not. */
  readonly datacenter?: string | undefined;
  /** Asks for an environment although it is frozen, for this reason; who may is named by the freeze. */
  readonly override?: { readonly reason: string } | undefined;
}

/** What a connection shows about the caller that waits on it. */
export interface CallerLife {
  /** Aborts when the caller's connection is gone. */
  readonly signal: AbortSignal;
  /** Whether the caller itself sent anything within the last second. */
  isAlive(): boolean;
  /**
   * Called when the caller begins to wait in line. @returns a function that ends it.
   * @throws {LeaseError} when it may not wait.
   */
  startWaiting?(): () => void;
  /** What the audit says of its request if that supersedes others. */
  readonly entry?: ActEntry | undefined;
}

/** A lease as its new holder gets it. */
export interface GrantedLease {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly namespace: string[];
  readonly key: string;
  readonly deadlines: LeaseDeadlines;
}

export type AcquireAnswer =
  | {
      readonly outcome: 'granted';
      readonly lease: GrantedLease;
      /** How long it waited in line, in milliseconds. */
      readonly waitedMs: number;
    }
  | HeldAnswer
  | WaitingAnswer;

/** Its time in line is not over, only that of the call. The same request, sent again, goes on waiting. */
export interface WaitingAnswer extends Omit<HeldAnswer, 'outcome'> {
  readonly outcome: 'waiting';
  /** Its place in line, from 1. */
  readonly place: number;
  /** The freeze that it waits out; null without one. */
  readonly frozen: { readonly until: string; readonly reason: string } | null;
}

/** What is held of a lease that several may hold at once. */
export interface PoolView extends Omit<PoolUse, 'holders'> {
  /** The first of its holders. */
  readonly holders: readonly {
    readonly leaseId: string;
    readonly fencingToken: string;
    readonly holder: string;
    readonly mode: SlotMode;
    readonly since: string;
    readonly remainingMs: number;
  }[];
}

/** Somebody else holds it, or waits in line before the caller. */
export interface HeldAnswer {
  readonly outcome: 'held';
  /** The holder, or the head of the line when nobody holds it. */
  readonly by: string;
  readonly since: string;
  /** The time until its expiry, without a renewal, in milliseconds; 0 for the head of a line. */
  readonly remainingMs: number;
  readonly waitedMs: number;
  readonly comment: string | null;
  /** The action that an environment is leased for; null for a lease. */
  readonly action: string | null;
  /** How many wait in line. */
  readonly waiters: number;
  /** What is held of it, if several may hold it at once; `by` is the one whose grant expires first. */
  readonly pool?: PoolView;
  /**
   * True if the grant has expired by a database clock that was not watched or has jumped. The holder may
   * still act, for `remainingMs`.
   */
  readonly isExpiryUnconfirmed?: true;
}

export type LeaseRenewResult =
  | { readonly leaseId: string; readonly outcome: 'renewed'; readonly deadlines: LeaseDeadlines }
  | { readonly leaseId: string; readonly outcome: 'refused'; readonly reason: RefusalReason };

export interface ReleaseInput extends GrantRef {
  readonly result: 'ok' | 'failed';
  readonly detail?: string | undefined;
}

export interface UpdateInput extends GrantRef {
  /** Any JSON in place of the present one. */
  readonly metadata?: unknown;
}

/** What a holder is told of a revocation. */
export interface RevocationNotice {
  readonly leaseId: string;
  /** `revoking`: it will not be renewed, stop in your own time. `revoked`: it is over, stop now. */
  readonly kind: 'revoking' | 'revoked';
  readonly reason: string | null;
  /** How long from now until the grant would have expired, in milliseconds. */
  readonly stopsByMs: number;
}

/**
 * What services do with leases and environments on the wire. Every method may throw
 * `store.unavailable`, `request.deadline` and `request.outcome_unknown`.
 */
export interface LeaseService {
  /**
   * Grants, waits in line, or returns the holder. Deadlines are in the clock that `localTimeMs` was read from.
   * @throws {LeaseError} `lease.ttl_out_of_range`, `lease.wait_cancelled`, `grant.hold_off`,
   * `grant.contended`, `request.idempotency_reused`, `environment.frozen` unless the wait outlasts the freeze,
   * `environment.superseded`, `lease.permits_not_declared`.
   */
  acquire(
    input: AcquireInput & { readonly localTimeMs: number },
    caller: Caller,
    life: CallerLife,
  ): Promise<AcquireAnswer>;
  /**
   * Records why an acquire is refused before it was carried out, under its idempotency key, and throws it: what was
   * refused once is never granted. @returns the answer that the request got before, if any.
   */
  refuse(
    input: AcquireInput & { readonly localTimeMs: number },
    caller: Caller,
    error: unknown,
  ): Promise<AcquireAnswer>;
  /**
   * Looks up what a request was refused here before it is sent on to another datacenter, which does not know of it.
   * @returns the refusal, if it was held; undefined if it was not refused.
   * @throws {LeaseError} what it was refused with; `request.idempotency_reused` for the key of another request.
   */
  refusedBefore(
    input: AcquireInput & { readonly localTimeMs: number },
    caller: Caller,
  ): Promise<AcquireAnswer | undefined>;
  /** Renews, with an answer for each in order; one whose row is kept locked is left out. */
  heartbeat(
    input: { readonly localTimeMs: number; readonly renewals: readonly GrantRef[] },
    caller: Caller,
  ): Promise<LeaseRenewResult[]>;
  release(input: ReleaseInput, caller: Caller): Promise<ReleaseOutcome>;
  /** Replaces the metadata of what the caller holds, and does not renew it. @throws {LeaseError} `grant.contended`. */
  update(input: UpdateInput, caller: Caller): Promise<UpdateOutcome>;
  /**
   * Shares what the caller has held alone, without letting it go. It stays the same grant, with its token.
   * @throws {LeaseError} `request.invalid` for a permit; `grant.contended`.
   */
  downgrade(input: GrantRef, caller: Caller): Promise<UpdateOutcome>;
  /**
   * Gives up the acquire with this idempotency key: removes its ticket, or releases the grant that it
   * became. Once it has answered, whatever it answered, the key is never answered with a grant, even if
   * its acquire arrives later.
   * @throws {LeaseError} `request.idempotency_reused` for the key of a request on another face.
   */
  cancel(
    input: { readonly idempotencyKey: string },
    caller: Caller,
  ): Promise<'cancelled' | 'released' | 'not_found'>;
}

/** A lease as operators see it; its name is its `key`. */
export interface LeaseView extends GrantView {
  /** What an environment is leased for; null for a lease. */
  readonly action: string | null;
  /** How its holder holds it if several may at once; null for a lease that one holds at a time. */
  readonly mode: SlotMode | null;
  /** What is held of it then, where one lease is asked for; null in lists, which show each holder. */
  readonly pool: PoolView | null;
  readonly comment: string | null;
  readonly metadata: unknown;
  readonly ttlMs: number;
}

export interface LeaseListInput extends GrantListInput {
  /** What an environment is leased for. */
  readonly action?: string | undefined;
}

export type LeasePage = DatedPage<LeaseView>;

export interface LeaseTree {
  readonly items: NamespaceCounts[];
  /** False when there are more namespaces than one answer shows. */
  readonly isComplete: boolean;
  readonly asOf: string;
}

export interface ContentionInput extends InNamespace, PageInput {
  /** Those that are waited for; without it those of this service. */
  readonly faces?: readonly Face[] | undefined;
}

/** A waiter, and those that it waits for. */
export interface ContentionView extends Resource {
  readonly waiter: string;
  readonly since: string;
  readonly waitedMs: number;
  /** Place in line, from 1. */
  readonly place: number;
  /** How it wants to hold what several may hold at once; null for a waiter that wants it alone. */
  readonly mode: SlotMode | null;
  /** What it wants an environment for; null for others. */
  readonly action: string | null;
  /** What its request wants besides, all or none; null for a request for one. */
  readonly together: {
    readonly count: number;
    /** The first of them. */
    readonly others: readonly Named[];
  } | null;
  /** Who holds it, those first whose grants expire first; none when nobody does at this moment. */
  readonly holders: readonly ContentionHolder[];
  /** How many hold it: more than are named, perhaps. */
  readonly holderCount: number;
  /** How many may hold what it wants a permit of; null for what has none. */
  readonly permits: Permits | null;
  /** How many hold any key of the namespace; null where there is no limit for all keys together. */
  readonly totalUsed: number | null;
  readonly datacenter: string;
}

/** Somebody for whom others wait. */
export interface ContentionHolder {
  readonly holder: string;
  readonly mode: SlotMode | null;
  readonly since: string;
  readonly remainingMs: number;
  /** What it waits for itself, since when; null if for nothing that the caller may see. */
  readonly waitsFor: (Resource & { readonly since: string }) | null;
}

/** Who made others wait for a resource. */
export interface Blocker {
  readonly holder: string;
  /** The token or the person that it was granted to; null where its beginning is not kept any more. */
  readonly actor: string | null;
  /** During how many of its grants somebody waited. */
  readonly grants: number;
  /** How long they waited during these, all waits together. */
  readonly waitedMs: number;
  /** The longest that one of them waited during one grant. */
  readonly longestMs: number;
}

/** Who took one lease while holding another. */
export interface OrderSide {
  readonly times: number;
  readonly lastAt: string;
  /** The first of them. */
  readonly by: readonly { readonly holder: string; readonly actor: string }[];
}

/** Two leases that are taken in opposite orders: their holders can wait for each other forever. */
export interface OppositeOrders {
  readonly one: Resource;
  readonly other: Resource;
  /** Who took `other` while holding `one`. */
  readonly oneFirst: OrderSide;
  readonly otherFirst: OrderSide;
}

/** Leases that were taken in opposite orders within a window. */
interface OrdersFound {
  /** Those that happened most often, the first ones. */
  readonly opposite: readonly OppositeOrders[];
  /** From when on orders were looked for: later than the window where too much has happened. */
  readonly oppositeFromAt: string;
}

/** From when on waits were counted. */
interface WaitsFrom {
  readonly fromAt: string;
  /** False where too much has happened: then it begins later than the window. */
  readonly isComplete: boolean;
}

/** Why callers wait for a lease or an environment. */
export interface LeaseWhy extends WaitsFrom, OrdersFound {
  /** The first of those who hold it now. */
  readonly holders: readonly {
    readonly leaseId: string;
    readonly holder: string;
    readonly actor: string | null;
    readonly mode: SlotMode | null;
    readonly since: string;
    readonly remainingMs: number;
  }[];
  readonly holderCount: number;
  /** How many hold any key of its namespace, and how many may; null where there is no such limit. */
  readonly total: { readonly used: number; readonly permits: number } | null;
  /** The first in line now. */
  readonly waiters: readonly Omit<WaiterView & { readonly place: number }, 'ticketId'>[];
  readonly waiterCount: number;
  /** The waits within the window, those that last included; they are cut to it. */
  readonly waits: {
    readonly count: number;
    /** All together. */
    readonly waitedMs: number;
    readonly longestMs: number;
    /** How many ended without a grant. */
    readonly gaveUp: number;
  };
  /** Who made others wait, the most first. */
  readonly blockers: readonly Blocker[];
  readonly datacenter: string;
  readonly asOf: string;
}

export interface MostWaitedInput extends InNamespace {
  readonly windowMinutes: number;
  readonly limit: number;
}

/** A lease, an environment or a key that was waited for. */
export interface MostWaitedView extends Resource {
  /** How many waits there were, and how many of them last. */
  readonly waits: number;
  readonly waiting: number;
  /** All together. */
  readonly waitedMs: number;
  readonly longestMs: number;
  /** How many ended without a grant. */
  readonly gaveUp: number;
  /** Who made them wait, the most first. */
  readonly blockers: readonly Blocker[];
}

/** What callers waited for. */
export interface MostWaitedPage extends WaitsFrom, OrdersFound {
  /** Those that were waited for longest, all waits together. */
  readonly items: readonly MostWaitedView[];
  readonly datacenter: string;
  readonly asOf: string;
}

/** A callback of an expired lease that has failed and is tried again. */
export interface FailingCallback {
  readonly namespace: string;
  readonly name: string;
  readonly leaseId: string;
  /** Of the grant that has expired: the lease may have another holder by now. */
  readonly fencingToken: string;
  /** Which service declares leases of this namespace; null for none. */
  readonly service: string | null;
  readonly expiredAt: string;
  /** How often it was called. */
  readonly tries: number;
  /** The message of the last error, cut to a bound. It is a service's text, and may hold any character. */
  readonly lastError: string;
  /** The earliest moment of the next call. It is called when its service reaps. */
  readonly nextTryAt: string;
  /** When it is given up. */
  readonly droppedAt: string;
  readonly datacenter: string;
}

export interface LeaseDeclaration {
  readonly namespace: string;
  readonly ttlMs: number;
  readonly description: string | null;
  readonly declaredBy: string;
  readonly declaredAt: string;
  /** How many may hold them at once, and who has said so; null for one at a time. */
  readonly permits: (Permits & { readonly by: string }) | null;
  /** In exactly this namespace, now. */
  readonly held: number;
  readonly waiting: number;
}

/** How many may hold leases of a namespace at once. */
export interface PermitsInForce {
  readonly namespace: string;
  readonly permits: Permits;
  /** Who has declared or set them. */
  readonly by: string;
}

/** Leases that a service says it uses. */
export interface Declarations {
  readonly declarations: readonly {
    readonly namespace: string;
    readonly ttlMs: number;
    readonly description?: string | undefined;
    /** How many may hold them at once: one key, and all keys together. */
    readonly permits?: (Pick<Permits, 'perKey'> & Partial<Pick<Permits, 'total'>>) | undefined;
  }[];
  /** How many namespaces the caller may have declared, these included. */
  readonly ownMax?: number | undefined;
}

/** A namespace, children included; all of them without one. */
export interface InNamespace {
  readonly namespace?: string | undefined;
}

/** A caller in the line for an environment. */
export interface QueuedView extends Omit<WaiterView, 'ticketId'> {
  /** From 1: who comes next. */
  readonly place: number;
  readonly action: string;
  readonly comment: string | null;
  /** Whether it stands before others because of its role. */
  readonly isPrior: boolean;
  /** Whether it stands before those that came earlier. */
  readonly isNewestFirst: boolean;
  /** For how long its place is kept if its caller does not answer again, in milliseconds. */
  readonly lapsesInMs: number;
}

/** A request that was superseded while it waited. */
export interface SupersededView {
  readonly waiter: string;
  readonly action: string;
  readonly comment: string | null;
  /** When it began to wait. */
  readonly since: string;
  readonly at: string;
  /** The holder of the newer request, and its comment. */
  readonly by: string;
  readonly byComment: string | null;
}

/** Who waits for an environment, the next one first, and who was superseded within a day, the newest first. */
export interface EnvironmentQueue {
  readonly waiting: QueuedView[];
  readonly superseded: SupersededView[];
  readonly asOf: string;
}

/** Which part of a tree is asked for. */
export interface TreeInput extends InNamespace {
  /** Leaves out Leasehold's own leases. */
  readonly withoutOwn?: boolean | undefined;
}

/** What people look at and do. */
export interface LeaseOperations {
  get(input: Named, caller: Caller): Promise<LeaseView | null>;
  list(input: LeaseListInput, caller: Caller): Promise<LeasePage>;
  count(input: FilterOf<LeaseListInput>, caller: Caller): Promise<Count>;
  tree(input: TreeInput, caller: Caller): Promise<LeaseTree>;
  waiters(input: Named & PageInput, caller: Caller): Promise<Page<WaiterView>>;
  /** Of an environment, as far as the caller may see it. */
  queue(input: Named, caller: Caller): Promise<EnvironmentQueue>;
  history(input: Named & PageInput, caller: Caller): Promise<Page<EventView>>;
  /** Who held it at a moment. @throws {LeaseError} `request.invalid` for a moment that has not come. */
  at(input: Named & { readonly at: string }, caller: Caller): Promise<HolderAt>;
  contention(input: ContentionInput, caller: Caller): Promise<DatedPage<ContentionView>>;
  /** Why callers wait for it. Of one that the caller may not see, what is told of one that nobody ever had. */
  why(input: Named & { readonly windowMinutes: number }, caller: Caller): Promise<LeaseWhy>;
  /** What callers waited for, of leases and of environments. */
  mostWaited(input: MostWaitedInput, caller: Caller): Promise<MostWaitedPage>;
  failingCallbacks(
    input: InNamespace & PageInput,
    caller: Caller,
  ): Promise<DatedPage<FailingCallback>>;
  declare(input: Declarations, caller: Caller): Promise<{ declared: number }>;
  /**
   * Sets how many may hold leases of a namespace at once, whatever services declare. With fewer nobody is
   * stopped, and nobody is granted one until there is room.
   * @throws {LeaseError} `lease.permits_differ` when a total would come or go while too many are in use; `grant.contended`.
   */
  setPermits(
    input: { readonly namespace: string; readonly permits: Permits; readonly reason: string },
    caller: Caller,
    actor: Actor,
  ): Promise<PermitsInForce>;
  /** Of one namespace, without its children, or of all. */
  declared(
    input: PageInput & { readonly namespace?: string | undefined },
    caller: Caller,
  ): Promise<DatedPage<LeaseDeclaration>>;
  /** @param entry what the audit says of it, in the same transaction; without it, it is part of a greater act */
  blockRenewal(input: RenewalAct, caller: Caller, entry?: ActEntry): Promise<RenewalChange>;
  allowRenewal(input: RenewalAct, caller: Caller, entry?: ActEntry): Promise<RenewalChange>;
  revoke(
    input: {
      readonly leaseId: string;
      readonly mode: 'graceful' | 'force';
      readonly reason: string;
    },
    caller: Caller,
    entry?: ActEntry,
  ): Promise<Revoked>;
  /** Revocations of what this principal holds, as they happen; ends when the signal aborts. */
  revocations(caller: Caller, signal: AbortSignal): AsyncIterable<RevocationNotice>;
}
