/** What people see of leases and environments, and what they do with them. */
import type { Face, Named } from '../kernel/resource/resource.ts';
import type { NamespaceCounts } from '../lists/index.ts';
import type {
  Caller,
  Count,
  DatedPage,
  EventView,
  FilterOf,
  HolderAt,
  GrantListInput,
  Page,
  WaiterView,
  PageInput,
  RenewalAct,
  RenewalChange,
  Revoked,
  GrantView,
} from '../kernel/face-types.ts';
import type { RevocationNotice } from './lease-types.ts';

/** A lease as operators see it; its name is its `key`. */
export interface LeaseView extends GrantView {
  /** What an environment is leased for; null for a lease. */
  readonly action: string | null;
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

/** A waiter, and the holder that it waits for. */
export interface ContentionView {
  readonly face: Face;
  readonly namespace: string;
  readonly name: string;
  readonly waiter: string;
  readonly since: string;
  readonly waitedMs: number;
  /** Place in line, from 1. */
  readonly place: number;
  /** Null when nobody holds it at this moment. */
  readonly holder: string | null;
  readonly heldSince: string | null;
  readonly remainingMs: number;
  readonly datacenter: string;
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
  /** In exactly this namespace, now. */
  readonly held: number;
  readonly waiting: number;
}

/** Leases that a service says it uses. */
export interface Declarations {
  readonly declarations: readonly {
    readonly namespace: string;
    readonly ttlMs: number;
    readonly description?: string | undefined;
  }[];
  /** How many namespaces the caller may have declared, these included. */
  readonly ownMax?: number | undefined;
}

/** A namespace, children included; all of them without one. */
export interface InNamespace {
  readonly namespace?: string | undefined;
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
  history(input: Named & PageInput, caller: Caller): Promise<Page<EventView>>;
  /** Who held it at a moment. @throws {LeaseError} `request.invalid` for a moment that has not come. */
  at(input: Named & { readonly at: string }, caller: Caller): Promise<HolderAt>;
  contention(input: ContentionInput, caller: Caller): Promise<DatedPage<ContentionView>>;
  failingCallbacks(
    input: InNamespace & PageInput,
    caller: Caller,
  ): Promise<DatedPage<FailingCallback>>;
  declare(input: Declarations, caller: Caller): Promise<{ declared: number }>;
  declared(input: PageInput, caller: Caller): Promise<DatedPage<LeaseDeclaration>>;
  blockRenewal(input: RenewalAct, caller: Caller): Promise<RenewalChange>;
  allowRenewal(input: RenewalAct, caller: Caller): Promise<RenewalChange>;
  revoke(
    input: {
      readonly leaseId: string;
      readonly mode: 'graceful' | 'force';
      readonly reason: string;
    },
    caller: Caller,
  ): Promise<Revoked>;
  /** Revocations of what this principal holds, as they happen; ends when the signal aborts. */
  revocations(caller: Caller, signal: AbortSignal): AsyncIterable<RevocationNotice>;
}
