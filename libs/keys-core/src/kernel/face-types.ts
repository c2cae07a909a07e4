/** What all faces have in common: the caller, and how lists, events and waiters are shown. */
import type { Ladder } from './ladder.ts';
import type { EndReason, Phase, RevokeOutcome, SlotMode } from './lease.ts';
import type { Face, Named, Resource } from './resource.ts';

/**
 * What can happen to a grant. Renewals are not events: they would drown everything else. A refused one is,
 * once for each grant, reason and minute.
 */
export const EVENT_KINDS = [
  'granted',
  'taken_over',
  'released',
  'failed',
  'expired',
  'removed',
  'renewal_blocked',
  'renewal_allowed',
  'updated',
  'revoked',
  'renewal_refused',
  'crash_loop',
  'superseded',
] as const;
export type EventKind = (typeof EVENT_KINDS)[number];

/**
 * Kinds that a reader gets only by naming them: those that a client of the first version does not know, and
 * that are not part of a resource's history.
 */
export const ASKED_EVENT_KINDS: readonly EventKind[] = [
  'renewal_refused',
  'crash_loop',
  'superseded',
];

/** The caller: what access control established, and what a service may rely on. */
export interface Caller {
  /** The id of the API token, or the drone id of a drone's token. */
  readonly principal: string;
  /** What is written into events and the audit: the token's name, or a person. */
  readonly actor: string;
  readonly role: string;
  /** Namespaces, children included, that the caller is limited to; null for no limit. */
  readonly namespaces: readonly string[] | null;
}

export interface Page<Item> {
  readonly items: Item[];
  readonly nextCursor: string | null;
}

/** A page, and the database's time when it was read. */
export interface DatedPage<Item> extends Page<Item> {
  readonly asOf: string;
}

/** How many rows a list has. Without `isExact` there are at least so many: counting ended there. */
export interface Count {
  readonly count: number;
  readonly isExact: boolean;
}

/** What a list that can only be searched is asked for. */
export interface Searched {
  /** A part of what is shown of each row, in any case. */
  readonly search?: string | undefined;
}

/** One page of such a list. */
export interface SearchedPage extends Searched {
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** What every list of grants may be asked for; a face adds filters of its own. */
export interface GrantListInput {
  readonly namespace?: string | undefined;
  /** Whether children of `namespace` are listed too; by default for leases, not for keys. */
  readonly includeChildren?: boolean | undefined;
  readonly name?: string | undefined;
  readonly prefix?: string | undefined;
  /** A part of the name as it is printed, with its namespace, whatever its case. */
  readonly contains?: string | undefined;
  readonly phase?: Phase | undefined;
  /** Leaves out resources that nobody has held for longer than this. Milliseconds. */
  readonly endedWithinMs?: number | undefined;
  /** Only what somebody waits for, or what has expired and is not recorded yet. */
  readonly is?: 'waited' | 'overdue' | undefined;
  /** Leaves out Leasehold's own leases. */
  readonly withoutOwn?: boolean | undefined;
  readonly holder?: string | undefined;
  /** The resource whose newest grant this is. */
  readonly leaseId?: string | undefined;
  readonly sort?: 'name' | 'grantedAt' | 'expiresAt' | undefined;
  readonly direction?: 'asc' | 'desc' | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** Which rows a list is asked for, without how they are ordered and cut into pages. */
export type FilterOf<Input> = Omit<Input, 'sort' | 'direction' | 'cursor' | 'limit'>;

/** A grant as operators see it on every face. Instants are ISO-8601 UTC strings, tokens decimal strings. */
export interface GrantView extends Named {
  readonly phase: Phase;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly holder: string;
  readonly grantedAt: string;
  readonly renewedAt: string;
  readonly expiresAt: string;
  readonly remainingMs: number;
  readonly renewable: boolean;
  /** Counted from `renewedAt`: when it is renewed, stopped gently, stopped hard, and expired. */
  readonly ladder: Ladder;
  /** Until when its holder may still act, though it was ended by force; ISO-8601. */
  readonly stopsBy: string | null;
  /** What ended it; null while nothing has. A grant past its expiry is `expired`, reaped or not. */
  readonly endReason: EndReason | null;
  /** When it was released; null for any other end. */
  readonly releasedAt: string | null;
  readonly waiters: number;
  readonly datacenter: string;
  readonly asOf: string;
}

/** Whether the renewal of a grant was blocked or allowed. False when it was so, or no such grant is in force. */
export interface RenewalChange {
  readonly changed: boolean;
}

/** The grant that somebody blocks or allows the renewal of. */
export interface RenewalAct {
  readonly leaseId: string;
  readonly reason?: string | undefined;
}

/** What became of a revocation. */
export interface Revoked {
  readonly outcome: RevokeOutcome;
  /** ISO-8601; null when nothing was revoked. */
  readonly stopsBy: string | null;
}

/** Which part of a list is asked for. */
export interface PageInput {
  readonly cursor?: string | undefined;
  readonly limit: number;
}

export interface EventView {
  readonly id: string;
  readonly at: string;
  readonly face: string;
  readonly namespace: string;
  readonly name: string;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly kind: EventKind;
  readonly actor: string;
  readonly reason: string | null;
  readonly detail: unknown;
  readonly datacenter: string;
}

/** A grant as its events, and its row while it is the newest, tell of it. */
export interface HolderAtGrant {
  readonly leaseId: string;
  /** The grant's own, also after a revocation by force. */
  readonly fencingToken: string;
  /** Null where its beginning is not kept any more. */
  readonly holder: string | null;
  /** What an environment was used for. */
  readonly action: string | null;
  readonly comment: string | null;
  /** How it was held beside others, or alone where others may share it; null for what one holds at a time. */
  readonly mode: SlotMode | null;
  /** Null where its beginning is not kept any more. */
  readonly since: string | null;
  /** When it ended, also after the moment; null while it lasts, or where that is not known. */
  readonly until: string | null;
  readonly end: {
    readonly kind: EventKind;
    readonly at: string;
    readonly actor: string;
    readonly reason: string | null;
  } | null;
  /** Who blocked its renewal before the moment, by itself or by a graceful revocation. */
  readonly blocked: {
    readonly at: string;
    readonly actor: string;
    readonly reason: string | null;
  } | null;
}

/** Who held a resource at a moment of the database's clock. */
export interface HolderAt {
  readonly at: string;
  /**
   * At that moment. `held` lasts until the end was recorded: when a grant was last renewed is not kept, so
   * one that expired was over some time before. `unknown`: the moment is before everything that is kept.
   */
  readonly phase: 'held' | 'expiring' | 'free' | 'unknown';
  /**
   * The grant at that moment, of several the one that had lasted longest; or while nobody held it the last one before, if
   * it is known.
   */
  readonly grant: HolderAtGrant | null;
  /** All who held it then, in the order in which they were granted; null for what one held at a time. */
  readonly sharing: {
    readonly holderCount: number;
    /** False where so many were granted before, or ended after, that others may have held it too. */
    readonly isComplete: boolean;
    /** The first 100. */
    readonly holders: readonly HolderAtGrant[];
  } | null;
  /** The oldest moment of which history is kept; null for an empty history. */
  readonly oldestAt: string | null;
  readonly datacenter: string;
  readonly asOf: string;
}

/** What events have happened to since the message before: what a page reads again. */
export interface EventChanges {
  /** How many events there were. */
  readonly eventCount: number;
  /** What they happened to, each once. */
  readonly resources: Resource[];
  /** The types of which too many changed to be named. */
  readonly manyOf: Face[];
}

export interface WaiterView {
  readonly ticketId: string;
  readonly waiter: string;
  readonly since: string;
  readonly waitedMs: number;
}

/** What a search finds. */
export const FOUND_KINDS = [
  'key',
  'lease',
  'environment',
  'drone',
  'backend',
  'person',
  'token',
] as const;
export type FoundKind = (typeof FOUND_KINDS)[number];

/** How a text was found, best first. `prefix`: of the name. `word`: at the beginning of a word. */
export const MATCHES = ['exact', 'prefix', 'word', 'substring'] as const;
export type Match = (typeof MATCHES)[number];

/** The order of what was found: the best match first, then what is in use, then what is shorter. */
export function compareFound(a: RankedText, b: RankedText): number {
  return (
    MATCHES.indexOf(a.match) - MATCHES.indexOf(b.match) ||
    Number(b.isLive) - Number(a.isLive) ||
    a.text.length - b.text.length ||
    (a.text < b.text ? -1 : Number(a.text > b.text))
  );
}

interface RankedText {
  readonly match: Match;
  readonly isLive: boolean;
  readonly text: string;
}

/** What may be done to many grants at once. */
export const BULK_ACTIONS = ['revoke', 'blockRenewal', 'allowRenewal'] as const;
export type BulkAction = (typeof BULK_ACTIONS)[number];

/** `interrupted`: its controller died and no other has taken it over yet. */
export const BULK_STATES = ['running', 'interrupted', 'aborted', 'done'] as const;
export type BulkState = (typeof BULK_STATES)[number];
