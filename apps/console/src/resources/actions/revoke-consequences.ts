/** What a revoke will do, in words, and by when it is over at the latest. Pure. */
import { isStopping, printableText } from '@leasehold/keys-core';
import type { MutationStatus } from '@tanstack/react-query';
import { count, duration } from '~/lib/format.ts';
import {
  type GrantFace,
  type GrantView,
  isInForce,
  isOneOfSeveral,
} from '~/resources/grant-view.ts';

export type RevokeMode = 'graceful' | 'force';

export interface RevokePlan {
  readonly face: GrantFace;
  readonly grant: GrantView;
  readonly mode: RevokeMode;
  /** For a key revoked by force: it can be granted again before its backend is known to be gone. */
  readonly isAbandoned: boolean;
}

export interface Consequences {
  readonly holder: string;
  /** What the holder uses it for, and who waits. */
  readonly context?: readonly string[];
  readonly steps: readonly string[];
  /** How long the holder may go on at most, counted from the act. */
  readonly worstCaseMs: number;
  readonly worstCase: string;
}

/** The consequences of a revoke that is made at `nowMs` of the database's clock. */
export function consequencesOf(plan: RevokePlan, nowMs: number): Consequences {
  const worstCaseMs = stoppedWithinMs(plan.grant, nowMs);
  return {
    holder: holderText(plan),
    context: contextOf(plan.grant),
    steps: stepsOf(plan, worstCaseMs),
    worstCaseMs,
    worstCase: worstCaseText(plan, worstCaseMs),
  };
}

/**
 * A holder that cannot be reached stops by its own clock, at the hard rung. While renewal is allowed,
 * a renewal just before the act puts that rung at its full distance from the act.
 */
export function stoppedWithinMs(grant: GrantView, nowMs: number): number {
  const { hardAfterMs, ttlMs } = grant.ladder;
  if (grant.renewable) return hardAfterMs;
  const hardAtMs = Date.parse(grant.expiresAt) - (ttlMs - hardAfterMs);
  return Math.max(0, hardAtMs - nowMs);
}

function holderText({ face, grant }: RevokePlan): string {
  const token = `with token ${grant.fencingToken}`;
  const holder = printableText(grant.holder);
  if (face === 'environment' && grant.action != null) {
    return `${holder} holds it for ${printableText(grant.action)}, ${token}.`;
  }
  if (face !== 'key') return `${holder} holds it, ${token}.`;
  const backend =
    grant.backendId === null || grant.backendId === undefined
      ? 'no backend yet'
      : `backend ${grant.backendId} (${grant.backendStatus ?? 'unknown'})`;
  return `Drone ${grant.droneId ?? grant.holder} holds it, ${token}: ${backend}.`;
}

function contextOf({ comment, waiters = 0 }: GrantView): string[] {
  return [
    ...(comment == null || comment === '' ? [] : [`Comment: “${printableText(comment)}”`]),
    ...(waiters === 0 ? [] : [`${count(waiters)} waiting for it.`]),
  ];
}

function stepsOf(plan: RevokePlan, worstCaseMs: number): string[] {
  if (plan.face === 'key') return plan.mode === 'force' ? forcedKey(plan) : gentleKey(plan);
  return plan.mode === 'force' ? forcedLease(plan, worstCaseMs) : gentleLease(plan);
}

function gentleKey({ grant }: RevokePlan): string[] {
  const { softAfterMs, hardAfterMs } = grant.ladder;
  const goodbye = duration(hardAfterMs - softAfterMs);
  return [
    'From now on it is not renewed.',
    `Its backend gets SIGTERM now, and SIGKILL ${goodbye} later if it is still there.`,
    'Nobody else is granted the key before the backend is gone.',
  ];
}

function forcedKey({ grant, isAbandoned }: RevokePlan): string[] {
  return [
    `The grant ends now: nothing is renewed, released or written with token ${grant.fencingToken} any more.`,
    'Its backend gets SIGKILL now, no grace period.',
    isAbandoned
      ? 'The next caller is granted the key at once: two backends may run at the same time.'
      : `Nobody is granted the key before its drone reports that the backend is gone, or ${duration(grant.ladder.ttlMs)} have passed.`,
  ];
}

/** Others may hold it beside this grant, and more may be granted it whatever becomes of this one. */
const STILL_SHARED = 'Those who hold it beside this one go on.';

function gentleLease({ face, grant }: RevokePlan): string[] {
  const holder = face === 'lease' ? 'The service' : 'The holder';
  return [
    'From now on it is not renewed.',
    `${holder} is told within a second, if it is connected, and stops in its own time.`,
    isOneOfSeveral(grant)
      ? STILL_SHARED
      : 'Nobody else is granted it before it is released or has expired.',
  ];
}

function forcedLease({ face, grant }: RevokePlan, worstCaseMs: number): string[] {
  const holder = face === 'lease' ? 'The service' : 'The holder';
  return [
    `The grant ends now: nothing is renewed, released or written with token ${grant.fencingToken} any more.`,
    ...(isOneOfSeveral(grant)
      ? [STILL_SHARED]
      : [
          face === 'lease'
            ? 'The first waiter is granted it at once.'
            : 'The next caller is granted it at once.',
        ]),
    `${holder} is told within a second. Without a connection it may continue for ${duration(worstCaseMs)}: only the token protects what it writes to.`,
  ];
}

function worstCaseText({ face, grant }: RevokePlan, worstCaseMs: number): string {
  const what = face === 'key' ? 'Its backend stops' : 'Its holder stops';
  const why = grant.renewable ? ', even if it is renewed just before' : '';
  return `${what} within ${duration(worstCaseMs)} at worst, by its own clock${why}.`;
}

type Seen = Pick<
  GrantView,
  'leaseId' | 'holder' | 'endReason' | 'releasedAt' | 'phase' | 'renewable'
> &
  Partial<Pick<GrantView, 'backendStatus'>>;

interface Overtaken {
  readonly text: string;
  /** Whether nothing is left that could be done to the grant. */
  readonly isOver: boolean;
}

/** What others have done to a grant. */
const BY_ANOTHER = {
  revoked: 'Another person has revoked it meanwhile.',
  stopping:
    'Its backend has begun to stop meanwhile: another person has stopped it, or has revoked the key.',
  allowed: 'Another person has allowed its renewal again meanwhile.',
  blocked: 'Another person has blocked its renewal meanwhile.',
};

/** After an act that failed nobody is named: it may have been carried out all the same. */
const BY_SOMEBODY: typeof BY_ANOTHER = {
  revoked: 'It has been revoked meanwhile, perhaps by this.',
  stopping: 'Its backend has begun to stop meanwhile, perhaps by this.',
  allowed: 'Its renewal has been allowed again meanwhile.',
  blocked: 'Its renewal has been blocked meanwhile, perhaps by this.',
};

/**
 * What has become of a grant since a dialog about it was opened; undefined while it is as it was, and while the
 * dialog's own act, whose effect it may be, is not over. Pure.
 */
export function overtakenBy(
  grant: Seen,
  latest: Seen | null | undefined,
  ownAct: MutationStatus = 'idle',
): Overtaken | undefined {
  if (latest === undefined || !isInForce(grant) || isOwn(ownAct)) return undefined;
  if (latest === null) return { text: 'It has been removed meanwhile.', isOver: true };
  if (latest.leaseId !== grant.leaseId) {
    return {
      text: `This grant has ended meanwhile, and ${latest.holder} has the next one. Close this, and look at that.`,
      isOver: true,
    };
  }
  if (latest.endReason !== 'revoked' && !isInForce(latest)) {
    return { text: 'The grant has ended meanwhile.', isOver: true };
  }
  return changeOf(grant, latest, ownAct === 'error' ? BY_SOMEBODY : BY_ANOTHER);
}

/** Whether a change is taken for the dialog's own: the answer tells what it did. */
function isOwn(ownAct: MutationStatus): boolean {
  return ownAct === 'pending' || ownAct === 'success';
}

/** What was done to the grant, in these texts. */
function changeOf(grant: Seen, latest: Seen, texts: typeof BY_ANOTHER): Overtaken | undefined {
  if (latest.endReason === 'revoked') return { text: texts.revoked, isOver: true };
  if (isStoppingNow(latest) && !isStoppingNow(grant)) {
    return { text: texts.stopping, isOver: false };
  }
  if (latest.renewable === grant.renewable) return undefined;
  return { text: latest.renewable ? texts.allowed : texts.blocked, isOver: false };
}

function isStoppingNow({ backendStatus }: Seen): boolean {
  return backendStatus !== undefined && backendStatus !== null && isStopping(backendStatus);
}
