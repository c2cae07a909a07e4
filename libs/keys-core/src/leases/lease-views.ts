/** What people see of leases and environments, and what they do with them. */
import type {
  Acted,
  Caller,
  DatedPage,
  EventView,
  GrantListInput,
  GrantTimes,
  Page,
  WaiterView,
} from '../kernel/face-types.ts';
import type { Phase } from '../kernel/lease/lease.ts';
import type { RevokeOutcome } from '../kernel/lease/outcomes.ts';
import type { RevocationNotice } from './lease-types.ts';

interface OneLease {
  readonly namespace: string;
  readonly name: string;
}

/** A lease as operators see it. Instants are ISO-8601 UTC strings, tokens decimal strings. */
export interface LeaseView extends GrantTimes {
  /** The lease's `key`. */
  readonly name: string;
  /** Joined by `.`. */
  readonly namespace: string;
  readonly phase: Phase;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly holder: string;
  /** What an environment is leased for; null for a lease. */
  readonly action: string | null;
  readonly comment: string | null;
  readonly metadata: unknown;
  readonly ttlMs: number;
  readonly grantedAt: string;
  readonly renewedAt: string;
  readonly expiresAt: string;
  readonly remainingMs: number;
  readonly renewable: boolean;
  readonly waiters: number;
  readonly datacenter: string;
  readonly asOf: string;
}

export interface LeaseListInput extends GrantListInput {
  /** What an environment is leased for. */
  readonly action?: string | undefined;
}

export type LeasePage = DatedPage<LeaseView>;

/** One namespace with what is in it and below it. */
export interface LeaseTreeNode {
  readonly namespace: string;
  /** Counts of its resources, children's included. */
  readonly held: number;
  readonly expiring: number;
  readonly expired: number;
  readonly free: number;
  readonly waiters: number;
}

export interface LeaseTree {
  readonly items: LeaseTreeNode[];
  /** False when there are more namespaces than one answer shows. */
  readonly isComplete: boolean;
  readonly asOf: string;
}

/** A waiter, and the holder that it waits for. */
export interface ContentionView {
  readonly face: string;
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

/** What people look at and do. */
export interface LeaseOperations {
  get(input: OneLease, caller: Caller): Promise<LeaseView | null>;
  list(input: LeaseListInput, caller: Caller): Promise<LeasePage>;
  tree(input: { readonly namespace?: string | undefined }, caller: Caller): Promise<LeaseTree>;
  waiters(
    input: OneLease & { readonly cursor?: string | undefined; readonly limit: number },
    caller: Caller,
  ): Promise<Page<WaiterView>>;
  history(
    input: OneLease & { readonly cursor?: string | undefined; readonly limit: number },
    caller: Caller,
  ): Promise<Page<EventView>>;
  contention(
    input: {
      readonly namespace?: string | undefined;
      readonly cursor?: string | undefined;
      readonly limit: number;
    },
    caller: Caller,
  ): Promise<DatedPage<ContentionView>>;
  declare(input: Declarations, caller: Caller): Promise<{ declared: number }>;
  declared(
    input: { readonly cursor?: string | undefined; readonly limit: number },
    caller: Caller,
  ): Promise<DatedPage<LeaseDeclaration>>;
  blockRenewal(
    input: { readonly leaseId: string; readonly reason?: string | undefined },
    caller: Caller,
  ): Promise<{ changed: boolean } & Acted>;
  allowRenewal(
    input: { readonly leaseId: string; readonly reason?: string | undefined },
    caller: Caller,
  ): Promise<{ changed: boolean } & Acted>;
  revoke(
    input: {
      readonly leaseId: string;
      readonly mode: 'graceful' | 'force';
      readonly reason: string;
    },
    caller: Caller,
  ): Promise<{ outcome: RevokeOutcome; stopsBy: string | null } & Acted>;
  /** Revocations of what this principal holds, as they happen; ends when the signal aborts. */
  revocations(caller: Caller, signal: AbortSignal): AsyncIterable<RevocationNotice>;
}
