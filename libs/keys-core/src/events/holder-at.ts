/** Who held a resource at a moment, from what is known of it around that moment. Pure. */
import type { EventKind } from '../kernel/events.ts';
import type { Face } from '../kernel/resource/resource.ts';
import type { HolderAt, HolderAtGrant } from '../kernel/face-types.ts';
import type { FactAt, FactsAround } from './sql/holder-at.ts';

const ENDS: readonly EventKind[] = ['released', 'failed', 'expired', 'removed'];

type Answer = Pick<HolderAt, 'phase' | 'grant'>;

/**
 * The answer for the moment of the facts. A grant that expired was over before its event, which the next
 * caller or the reaper wrote; renewals are not kept, so until that event it counts as held, and its end says
 * `expired`. What began before the oldest event that is kept is known only while it lasts, or by what ended it.
 */
export function holderAt(face: Face, facts: FactsAround): Answer {
  const { at, newest, begun, ended, blocked, next, oldestAt } = facts;
  const since = newest?.grantedAt ?? begun?.at;
  if (since === undefined) return withoutBeginning(next, oldestAt === null || at >= oldestAt);
  const lapsedAt = newest?.isOver === true ? newest.expiresAt : null;
  // An end that was not recorded: the next grant began after it.
  const untilAt = ended?.at ?? lapsedAt ?? (next !== null && isBeginning(next) ? next.at : null);
  const grant: HolderAtGrant = {
    leaseId: newest?.leaseId ?? begun?.leaseId ?? '',
    fencingToken: newest?.fencingToken ?? begun?.fencingToken ?? '',
    holder: newest?.holder ?? textIn(begun?.detail, 'holder'),
    action: newest === null ? textIn(begun?.detail, 'action') : newest.action,
    comment: newest === null ? textIn(begun?.detail, 'comment') : newest.comment,
    since: isoOf(since),
    until: untilAt === null ? null : isoOf(untilAt),
    end: endOf(ended, untilAt),
    blocked: blocked === null || blocked.kind === 'renewal_allowed' ? null : actOf(blocked),
  };
  if (untilAt !== null && untilAt <= at) {
    // A key that was ended by force is held back until its backend must be gone.
    const isHeldBack = face === 'key' && at < stopsBy(ended);
    return { phase: isHeldBack ? 'expiring' : 'free', grant };
  }
  return { phase: grant.blocked === null ? 'held' : 'expiring', grant };
}

/** No beginning is kept: what happened next may show that somebody held it. */
function withoutBeginning(next: FactAt | null, isKept: boolean): Answer {
  if (next === null || isBeginning(next))
    return { phase: isKept ? 'free' : 'unknown', grant: null };
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

function isoOf(ms: number): string {
  return new Date(ms).toISOString();
}
