/** How far a move has come, from what is seen of the key and of its chain. Pure. */
import type { Phase } from '@leasehold/keys-core';
import type { Stage } from '~/resources/actions/revoke/revoke-progress.ts';

/** A move as it was asked for. A reservation is left once, so that its id names the move. */
export interface FollowedMove {
  readonly key: readonly string[];
  readonly fromId: string;
  readonly fromDatacenter: string;
  readonly toDatacenter: string;
  readonly reason: string;
  /** The grant that has to end first; null when the key was free. */
  readonly waitsFor: {
    readonly leaseId: string;
    readonly holder: string;
    /** Whether it was revoked for the move; else it was ending by itself. */
    readonly isRevoked: boolean;
    /** By when it has ended, whatever happens; of the database's clock. */
    readonly stopsBy: string | null;
  } | null;
}

/** What is known now; undefined where nothing has been read yet. */
export interface ObservedMove {
  readonly links?:
    | readonly {
        readonly reservationId: string;
        readonly datacenter: string;
        readonly state: 'active' | 'moved' | 'pending' | 'unreachable';
      }[]
    | undefined;
  readonly grant?:
    { readonly leaseId: string; readonly phase: Phase; readonly holder: string } | null | undefined;
}

export interface MoveProgress {
  readonly stages: readonly Stage[];
  /** What comes next: wait; carry the move out; it is done; it went, or was taken, elsewhere. */
  readonly next: 'wait' | 'move' | 'finish' | 'done' | 'elsewhere' | 'taken';
  /** What stands now, without a time in it: it is read out when it changes. */
  readonly text: string;
}

export function moveProgress(move: FollowedMove, observed: ObservedMove): MoveProgress {
  const next = nextOf(move, observed);
  const hasLeft = next === 'finish' || next === 'done';
  const isFree = hasLeft || next === 'move';
  const { waitsFor, fromDatacenter, toDatacenter } = move;
  const stages: Stage[] = [
    ...(waitsFor === null
      ? [stage('Asked for', true)]
      : [
          stage(waitsFor.isRevoked ? 'Revoke asked' : 'Waiting for its end', true),
          stage('Backend stopped', isFree),
        ]),
    stage(`Sealed and left ${fromDatacenter}`, hasLeft),
    stage(`Active in ${toDatacenter}`, next === 'done'),
  ];
  return { stages, next, text: textOf(move, observed, next) };
}

function stage(label: string, isDone: boolean): Stage {
  return { label, isDone, at: null };
}

function nextOf(move: FollowedMove, { links, grant }: ObservedMove): MoveProgress['next'] {
  if (links === undefined) return 'wait';
  const from = links.findIndex(({ reservationId }) => reservationId === move.fromId);
  const after = from === -1 ? undefined : links[from + 1];
  if (after === undefined) return beforeLeaving(move, grant);
  if (after.datacenter !== move.toDatacenter) return 'elsewhere';
  return after.state === 'active' || after.state === 'moved' ? 'done' : 'finish';
}

function beforeLeaving(
  { waitsFor }: FollowedMove,
  grant: ObservedMove['grant'],
): 'wait' | 'move' | 'taken' {
  if (waitsFor === null) return 'move';
  if (grant === undefined) return 'wait';
  if (grant === null || grant.phase === 'free' || grant.phase === 'expired') return 'move';
  return grant.leaseId === waitsFor.leaseId ? 'wait' : 'taken';
}

function textOf(
  { fromDatacenter, toDatacenter, waitsFor }: FollowedMove,
  { links, grant }: ObservedMove,
  next: MoveProgress['next'],
): string {
  switch (next) {
    case 'wait':
      return waitsFor === null || links === undefined
        ? 'Looking where it stands.'
        : `${waitsFor.holder} has been told to stop; the key moves when it is free.`;
    case 'move':
      return `Nobody holds it: it can leave ${fromDatacenter}.`;
    case 'finish':
      return `It has left ${fromDatacenter} and is not active in ${toDatacenter} yet. The next connect finishes that, or the same move once more.`;
    case 'done':
      return `It lives in ${toDatacenter}.`;
    case 'elsewhere':
      return 'It was moved to another datacenter meanwhile.';
    case 'taken':
      return `${grant?.holder ?? 'Somebody'} was granted it before it could move. It stays in ${fromDatacenter}: move it again.`;
  }
}
