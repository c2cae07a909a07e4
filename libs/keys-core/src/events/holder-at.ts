/** Who held a resource at a moment, from what is known of it around that moment. Pure. */
import type { EventKind, HolderAt, HolderAtGrant } from '../kernel/face-types.ts';
import type { Face } from '../kernel/resource.ts';
import { isoOf } from '../postgres/sql.ts';
import type { FactAt, FactsAround } from './sql/history.ts';

const ENDS: readonly EventKind[] = ['released', 'failed', 'expired', 'removed'];

type Answer = Pick<HolderAt, 'phase' | 'grant'>;

/**
 * The answer for the moment of the facts. A grant that expired was over before its event, which the next
 * caller or the reaper wrote; renewals are not kept, so until that event it counts as held, and its end says
 * `expired`. What began before the oldest event that is kept is known only while it lasts, or by what ended it.
 */
export function holderAt(face: Face, facts: FactsAround): Answer {
  const begun = beginningOf(facts);
  if (begun === undefined) {
    const { at, next, oldestAt } = facts;
    return withoutBeginning(next, oldestAt === null || at >= oldestAt);
  }
  const { at, ended, blocked } = facts;
  const untilAt = endMs(facts);
  const grant: HolderAtGrant = {
    ...begun,
    until: untilAt === null ? null : isoOf(untilAt),
    end: endOf(ended, untilAt),
    blocked: blocked === null || blocked.kind === 'renewal_allowed' ? null : actOf(blocked),
  };
  if (untilAt === null || at < untilAt) {
    return { phase: grant.blocked === null ? 'held' : 'expiring', grant };
  }
  // A key that was ended by force is held back until its backend must be gone.
  const isHeldBack = face === 'key' && at < stopsBy(ended);
  return { phase: isHeldBack ? 'expiring' : 'free', grant };
}

/** The grant that began last before the moment, by its row while it is the newest, or else by its event. */
function beginningOf({
  newest,
  begun,
}: FactsAround): Omit<HolderAtGrant, 'until' | 'end' | 'blocked'> | undefined {
  if (newest !== null) {
    const { leaseId, fencingToken, holder, action, comment, grantedAt } = newest;
    return { leaseId, fencingToken, holder, action, comment, since: isoOf(grantedAt) };
  }
  if (begun === null) return undefined;
  const { leaseId, fencingToken, at, detail } = begun;
  return {
    ...{ leaseId, fencingToken, since: isoOf(at) },
    holder: textIn(detail, 'holder'),
    action: textIn(detail, 'action'),
    comment: textIn(detail, 'comment'),
  };
}

/** When that grant ended; an end that was not recorded was before the next grant. */
function endMs({ newest, ended, next }: FactsAround): number | null {
  if (ended !== null) return ended.at;
  if (newest?.isOver === true) return newest.expiresAt;
  return next !== null && isBeginning(next) ? next.at : null;
}

/** No beginning is kept: what happened next may show that somebody held it. */
function withoutBeginning(next: FactAt | null, isKept: boolean): Answer {
  if (next === null || isBeginning(next)) {
    return { phase: isKept ? 'free' : 'unknown', grant: null };
  }
  const isEnd = ENDS.includes(next.kind) || isForced(next);
  return {
    phase: 'held',
    grant: {
      leaseId: next.leaseId,
      fencingToken: ownToken(next),
      ...{ holder: null, action: null, comment: null, since: null, blocked: null },
      until: isEnd ? isoOf(next.at) : null,
      end: isEnd ? endOf(next, next.at) : null,
    },
  };
}

function isBeginning({ kind }: FactAt): boolean {
  return kind === 'granted' || kind === 'taken_over';
}

/** A revocation by force raises the token by one, and its event has the raised one. */
function ownToken({ kind, fencingToken, detail }: FactAt): string {
  return isForced({ kind, detail }) ? String(BigInt(fencingToken) - 1n) : fencingToken;
}

function isForced({ kind, detail }: Pick<FactAt, 'kind' | 'detail'>): boolean {
  return kind === 'revoked' && textIn(detail, 'mode') === 'force';
}

function endOf(ended: FactAt | null, untilAt: number | null): HolderAtGrant['end'] {
  if (ended !== null) return { kind: ended.kind, ...actOf(ended) };
  return untilAt === null
    ? null
    : { kind: 'expired', at: isoOf(untilAt), actor: 'leasehold', reason: null };
}

function actOf({ at, actor, reason }: FactAt): {
  at: string;
  actor: string;
  reason: string | null;
} {
  return { at: isoOf(at), actor, reason };
}

function stopsBy(ended: FactAt | null): number {
  const text = textIn(ended?.detail, 'stopsBy');
  const isAbandoned = fieldIn(ended?.detail, 'abandon') === true;
  return text === null || isAbandoned ? Number.NEGATIVE_INFINITY : Date.parse(text);
}

function textIn(detail: unknown, name: string): string | null {
  const value = fieldIn(detail, name);
  return typeof value === 'string' ? value : null;
}

function fieldIn(detail: unknown, name: string): unknown {
  return typeof detail === 'object' && detail !== null
    ? (detail as Record<string, unknown>)[name]
    : undefined;
}
