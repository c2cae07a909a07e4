/** How far a revoke has come, according to its grant and its backend. Pure. */
import { useEffect } from 'react';
import { type BackendStatus, isStopping } from '@leasehold/keys-core';
import { duration } from '~/lib/format.ts';
import { useSession } from '~/lib/session.tsx';
import { createSignal, useSignal } from '~/lib/signal.ts';
import { type GrantFace, type GrantView, isInForce } from '~/resources/grant-view.ts';
import type { RevokeMode } from './revoke-consequences.ts';

// Acts that a person has requested in this tab and follows to their end. They are kept from page to page, and
// over a reload.

const KEPT_MAX = 3;

type Followed<Act> = ReturnType<typeof createFollowed<Act>>;

/** `name`: under which the browser keeps them; `idOf`: what identifies an act. */
export function createFollowed<Act>(name: string, idOf: (act: Act) => string) {
  /** The browser's key, with the actor: another person who signs in in this tab has other acts. */
  let stored = name;
  const acts = createSignal<readonly Act[]>([]);
  const others = (id: string): readonly Act[] => acts.get().filter((act) => idOf(act) !== id);
  const store = (all: readonly Act[]): void => {
    const kept = all.slice(0, KEPT_MAX);
    acts.set(kept);
    try {
      window.sessionStorage.setItem(stored, JSON.stringify(kept));
    } catch {
      // The tab's storage is full: they are followed until a reload, and what comes after goes on.
    }
  };
  return {
    acts,
    /** Begins to follow an act; only the newest few are kept. */
    follow: (act: Act) => store([act, ...others(idOf(act))]),
    /** Stops following an act: the person has dismissed it, or it was refused. */
    unfollow: (id: string) => store(others(id)),
    /** Reads the acts that this person followed in this tab before a reload. */
    read(actor: string): void {
      stored = `${name} ${actor}`;
      const text = window.sessionStorage.getItem(stored);
      if (text === null) {
        acts.set([]);
        return;
      }
      try {
        acts.set(JSON.parse(text) as Act[]);
      } catch {
        window.sessionStorage.removeItem(stored);
      }
    },
  };
}

/** The acts that the person who is signed in follows in this tab. */
export function useFollowed<Act>(followed: Followed<Act>): readonly Act[] {
  const acts = useSignal(followed.acts);
  const { actor } = useSession();
  useEffect(() => followed.read(actor), [followed, actor]);
  return acts;
}

export const followedRevokes = createFollowed<FollowedRevoke>(
  'leasehold.revokes',
  ({ leaseId }) => leaseId,
);

/** A revoke as it was made and answered. Instants are the database's. */
export interface FollowedRevoke {
  readonly face: GrantFace;
  readonly namespace: string;
  readonly name: string;
  /** Its datacenter; by default this controller's. */
  readonly datacenter?: string;
  readonly leaseId: string;
  /** Whether others may hold the lease beside it. */
  readonly isOneOfSeveral: boolean;
  readonly fencingToken: string;
  readonly backendId: string | null;
  readonly mode: RevokeMode;
  /** `gone`: the grant had ended before, and nothing was done. */
  readonly outcome: 'revoking' | 'revoked' | 'gone';
  readonly requestedAt: string;
  /** When the grant would have run out: its holder has stopped by then, whatever happens. */
  readonly stopsBy: string | null;
}

/** What is known of it now; undefined where nothing has been read yet. */
interface Observed {
  readonly grant?:
    | Pick<
        GrantView,
        | ('leaseId' | 'fencingToken' | 'endReason' | 'releasedAt' | 'phase')
        | ('renewable' | 'expiresAt' | 'asOf')
      >
    | null
    | undefined;
  readonly backend?:
    | {
        readonly status: BackendStatus;
        readonly states: readonly { readonly status: BackendStatus; readonly at: string }[];
      }
    | undefined;
}

export interface Stage {
  readonly label: string;
  readonly isDone: boolean;
  readonly at: string | null;
}

export interface RevokeProgress {
  readonly stages: readonly Stage[];
  readonly isOver: boolean;
  /** Whether its renewal was allowed again, so that it goes on and nothing more is to come. */
  readonly isUndone: boolean;
  /** The present stage in words, without a time: screen readers read it out when it changes. */
  readonly text: string;
  readonly elapsedMs: number;
  /** How long it can take at most from now on; null once it is over. */
  readonly worstCaseMs: number | null;
}

/** How far the revoke is at `nowMs` of the database's clock. */
export function revokeProgress(
  revoke: FollowedRevoke,
  observed: Observed,
  nowMs: number,
): RevokeProgress {
  const stopsByMs = revoke.stopsBy === null ? nowMs : Date.parse(revoke.stopsBy);
  const isHeldOn = wasAllowedAgain(revoke, observed);
  const isTimeOver = nowMs >= stopsByMs && !isHeldOn;
  const stages =
    revoke.backendId === null
      ? leaseStages(revoke, observed, isTimeOver)
      : backendStages(revoke, observed, isTimeOver);
  const last = stages.at(-1);
  const isOver = last?.isDone === true;
  const isUndone = isHeldOn && !isOver && !isBackendStopping(observed);
  const endMs = isOver && last.at !== null ? Date.parse(last.at) : nowMs;
  return {
    stages,
    isOver,
    isUndone,
    text: isUndone ? UNDONE : textOf(revoke, stages, observed),
    elapsedMs: Math.max(0, endMs - Date.parse(revoke.requestedAt)),
    worstCaseMs: isOver || isHeldOn ? null : Math.max(0, stopsByMs - nowMs),
  };
}

/** A backend that was asked to stop does so, whatever its key is allowed. */
function isBackendStopping({ backend }: Observed): boolean {
  return backend !== undefined && isStopping(backend.status);
}

function backendStages(
  { requestedAt, stopsBy }: FollowedRevoke,
  { backend }: Observed,
  isTimeOver: boolean,
): Stage[] {
  const states = backend?.states ?? [];
  const stopping = states.find(({ status }) => isStopping(status));
  const terminated = states.find(({ status }) => status === 'terminated');
  const isAcknowledged = backend !== undefined && isStopping(backend.status);
  const isStopped = backend?.status === 'terminated' || isTimeOver;
  return [
    { label: 'Requested', isDone: true, at: requestedAt },
    { label: 'Acknowledged', isDone: isAcknowledged || isStopped, at: stopping?.at ?? null },
    {
      label: 'Stopped',
      isDone: isStopped,
      at: terminated?.at ?? (isTimeOver ? stopsBy : null),
    },
  ];
}

function leaseStages(revoke: FollowedRevoke, observed: Observed, isTimeOver: boolean): Stage[] {
  const { mode, requestedAt, stopsBy } = revoke;
  const isForced = mode === 'force';
  // No service reports when it has stopped after it lost a lease: only its own deadline shows that.
  const isEnded = isTimeOver || (!isForced && hasEnded(revoke, observed));
  const endedAt = observed.grant?.releasedAt ?? (isTimeOver ? stopsBy : null);
  return [
    { label: 'Requested', isDone: true, at: requestedAt },
    { label: isForced ? 'Free for others' : 'Renewal blocked', isDone: true, at: requestedAt },
    { label: isForced ? 'Holder stopped' : 'Ended', isDone: isEnded, at: isEnded ? endedAt : null },
  ];
}

/** Whether the grant is held on after a revoke that let it run out: somebody has allowed its renewal again. */
function wasAllowedAgain(
  { mode, leaseId, requestedAt, stopsBy }: FollowedRevoke,
  { grant }: Observed,
): boolean {
  if (mode === 'force' || grant?.leaseId !== leaseId || !isInForce(grant)) return false;
  // Read before the revoke, it says nothing of the time after it.
  if (Date.parse(grant.asOf) < Date.parse(requestedAt)) return false;
  return grant.renewable || (stopsBy !== null && Date.parse(grant.expiresAt) > Date.parse(stopsBy));
}

function hasEnded({ leaseId }: FollowedRevoke, { grant }: Observed): boolean {
  if (grant === undefined) return false;
  if (grant?.leaseId !== leaseId) return true;
  return !isInForce(grant);
}

function textOf(revoke: FollowedRevoke, stages: readonly Stage[], { grant }: Observed): string {
  const done = stages.findLast(({ isDone }) => isDone)?.label;
  const isGrantedAgain = (grant?.leaseId ?? revoke.leaseId) !== revoke.leaseId;
  const next = isGrantedAgain
    ? ` It has been granted again, with token ${grant?.fencingToken ?? ''}.`
    : '';
  return `${SAYS[done ?? ''] ?? ''}${next}`.trim();
}

const UNDONE = 'Not revoked any more: its renewal was allowed again, and it goes on.';

const SAYS: Record<string, string> = {
  Requested: 'Requested: its drone is being told.',
  Acknowledged: 'Acknowledged: its backend is stopping.',
  Stopped: 'Stopped: its backend is gone.',
  'Renewal blocked': 'It will not be renewed: its holder has been told to stop.',
  'Free for others': 'The grant has ended, others may have it. Its holder has been told to stop.',
  'Holder stopped': 'Its holder has stopped, by its own clock.',
  Ended: 'Ended: nobody holds that grant any more.',
};

/** `took 3 s`; or `for 3 s`, and how much longer it can take at most, if that is known. */
export function elapsedText({ isOver, elapsedMs, worstCaseMs }: RevokeProgress): string {
  const elapsed = duration(elapsedMs);
  if (isOver) return `took ${elapsed}`;
  return worstCaseMs === null
    ? `for ${elapsed}`
    : `for ${elapsed} · stops within ${duration(worstCaseMs)} at worst`;
}
