/** The grants of a resource, with how each went, from its events. Pure. */
import type { Outputs } from '~/lib/api/api.ts';
import { droneOf } from '~/resources/names.ts';

/** An event of a resource as it comes over the wire; the same for every face. */
export type EventItem = Outputs['keys']['history']['items'][number];

/** One grant of a resource, as its events show it. */
export interface PastGrant {
  readonly leaseId: string;
  readonly fencingToken: string;
  /** Null when the grant's beginning is on an older page. */
  readonly holder: string | null;
  /** What an environment was used for, and the comment; null where the holder gave none, too. */
  readonly action: string | null;
  readonly comment: string | null;
  readonly from: string | null;
  /** Null while it lasts, or as far as is known. */
  readonly to: string | null;
  readonly end: GrantEnd | null;
  /** Nothing has ended it, and there is no newer grant. */
  readonly isLasting: boolean;
  /** Whether it was taken over from a holder whose grant had expired. */
  readonly isTakeover: boolean;
  /** What happened in between, oldest first: renewal blocked, allowed, a graceful revoke. */
  readonly acts: readonly GrantAct[];
}

interface GrantEnd {
  readonly kind: 'released' | 'failed' | 'expired' | 'revoked' | 'removed';
  readonly actor: string;
  readonly reason: string | null;
  /** Whether the resource was given away before its holder had surely stopped. */
  readonly isAbandoned: boolean;
}

interface GrantAct {
  readonly kind: 'renewal_blocked' | 'renewal_allowed' | 'revoked';
  readonly at: string;
  readonly actor: string;
  readonly reason: string | null;
}

/**
 * Turns a page of events, newest first, into grants, newest first. The end of a grant may be on a
 * newer page, or not be kept: then it was over by the beginning of the next grant.
 */
export function grantsOfEvents(
  events: readonly EventItem[],
  {
    isNewestPage,
    held,
  }: {
    readonly isNewestPage: boolean;
    /** Of what several may hold at once. One grant does not end when the next begins. */
    readonly held?: HeldBySeveral | undefined;
  },
): PastGrant[] {
  const byLease = new Map<string, EventItem[]>();
  for (const event of events) {
    const known = byLease.get(event.leaseId);
    if (known === undefined) byLease.set(event.leaseId, [event]);
    else known.push(event);
  }
  const grants = [...byLease.values()].map((newestFirst) => grantOf(newestFirst.toReversed()));
  return grants.map((grant, index) => {
    if (grant.end !== null) return grant;
    if (held !== undefined) {
      const isLasting = held.leaseIds.includes(grant.leaseId) || isLater(grant.from, held.asOf);
      const isOver = !isLasting && isNewestPage && held.isWhole;
      return { ...grant, isLasting, end: isOver ? RAN_OUT : null };
    }
    const newer = grants[index - 1];
    return { ...grant, to: newer?.from ?? null, isLasting: isNewestPage && newer === undefined };
  });
}

/** The grants that last. */
export interface HeldBySeveral {
  readonly leaseIds: readonly string[];
  /** Whether these are all. */
  readonly isWhole: boolean;
  /** When they were read: a later one is not among them. */
  readonly asOf: string;
}

function isLater(from: string | null, asOf: string): boolean {
  return from !== null && Date.parse(from) > Date.parse(asOf);
}

/** Nothing tells of the end until its place is taken again. */
const RAN_OUT = { kind: 'expired', actor: '', reason: null, isAbandoned: false } as const;

const NO_GRANT = { leaseId: '', fencingToken: '' };

function grantOf(events: readonly EventItem[]): PastGrant {
  const begun = events.find(({ kind }) => BEGINNINGS.includes(kind));
  const ended = events.find(isEnd);
  // A forced end raises the token; the grant's own is the one that it began with.
  const { leaseId, fencingToken } = begun ?? events[0] ?? NO_GRANT;
  return {
    leaseId,
    fencingToken,
    holder: textIn(begun?.detail, 'holder'),
    action: textIn(begun?.detail, 'action'),
    comment: textIn(begun?.detail, 'comment'),
    from: begun?.at ?? null,
    to: ended?.at ?? null,
    end: ended === undefined ? null : endOf(ended, events.some(isAbandoned)),
    isLasting: false,
    isTakeover: begun?.kind === 'taken_over',
    acts: events.flatMap(actOf),
  };
}

const BEGINNINGS = ['granted', 'taken_over'];
const ENDS = ['released', 'failed', 'expired', 'removed'];

function isEnd({ kind, detail }: EventItem): boolean {
  return ENDS.includes(kind) || (kind === 'revoked' && modeIn(detail) === 'force');
}

function endOf(event: EventItem, wasAbandoned: boolean): GrantEnd {
  return {
    kind: event.kind as GrantEnd['kind'],
    actor: event.actor,
    reason: event.reason,
    isAbandoned: wasAbandoned,
  };
}

const ACTS = ['renewal_blocked', 'renewal_allowed', 'revoked'];

function actOf(event: EventItem): GrantAct[] {
  const { kind, at, actor, reason } = event;
  return ACTS.includes(kind) && !isEnd(event)
    ? [{ kind: kind as GrantAct['kind'], at, actor, reason }]
    : [];
}

function field(detail: unknown, name: string): unknown {
  return typeof detail === 'object' && detail !== null
    ? (detail as Record<string, unknown>)[name]
    : undefined;
}

function textIn(detail: unknown, name: string): string | null {
  const text = field(detail, name);
  return typeof text === 'string' && text !== '' ? text : null;
}

function modeIn(detail: unknown): unknown {
  return field(detail, 'mode');
}

function isAbandoned({ kind, detail }: EventItem): boolean {
  return kind === 'revoked' && field(detail, 'abandon') === true;
}

/** `Released by drone-1`, `Expired`, `Revoked by force by ada: moved`: how a grant ended. */
export function endText(end: GrantEnd): string {
  const by =
    end.actor === 'leasehold' || end.actor === '' ? '' : ` by ${droneOf(end.actor) ?? end.actor}`;
  const why = end.reason === null ? '' : `: ${end.reason}`;
  const abandoned = end.isAbandoned ? ', abandoned' : '';
  return `${END_WORDS[end.kind]}${by}${abandoned}${why}`;
}

/** A grant in one line: what happened meanwhile, then its end. */
export function storyOf(grant: PastGrant): string {
  const parts = [
    ...(grant.isTakeover ? ['Taken over'] : []),
    ...grant.acts.map(actText),
    lastOf(grant),
  ];
  return parts.filter((part) => part !== '').join(' · ');
}

function lastOf({ end, isLasting, to }: PastGrant): string {
  if (end !== null) return endText(end);
  if (isLasting) return 'Current';
  return to === null ? 'Its end is on a newer page' : 'Ended';
}

const END_WORDS: Record<GrantEnd['kind'], string> = {
  released: 'Released',
  failed: 'Failed',
  expired: 'Expired',
  revoked: 'Revoked by force',
  removed: 'Removed',
};

const ACT_WORDS: Record<GrantAct['kind'], string> = {
  renewal_blocked: 'Renewal blocked',
  renewal_allowed: 'Renewal allowed',
  revoked: 'Revoked gracefully',
};

/** `Renewal blocked by ada: moved`. */
export function actText({ kind, actor, reason }: GrantAct): string {
  return `${ACT_WORDS[kind]} by ${droneOf(actor) ?? actor}${reason === null ? '' : `: ${reason}`}`;
}

/** From when to when the bars of a page are drawn. */
export interface Axis {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Where a grant lies between two moments, as shares from 0 to 1. */
export function barOf(
  grant: Pick<PastGrant, 'from' | 'to'>,
  axis: Axis,
): { readonly start: number; readonly length: number } {
  const wholeMs = Math.max(1, axis.toMs - axis.fromMs);
  const at = (iso: string | null, otherwise: number): number =>
    iso === null ? otherwise : Math.min(1, Math.max(0, (Date.parse(iso) - axis.fromMs) / wholeMs));
  const start = at(grant.from, 0);
  return { start, length: Math.max(0, at(grant.to, 1) - start) };
}
