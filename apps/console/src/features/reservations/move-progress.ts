/** How far a move has come, according to its request and the key's chain. Pure. */
import { createFollowed, type Stage } from '~/resources/actions/revoke-progress.ts';

/** A requested move. A reservation is left only once, so its id identifies the move. */
export interface FollowedMove {
  readonly key: readonly string[];
  readonly fromId: string;
  readonly fromDatacenter: string;
  readonly toDatacenter: string;
}

/** The moves that the person who is signed in follows in this tab. */
export const followedMoves = createFollowed<FollowedMove>(
  'leasehold.moves',
  ({ fromId }) => fromId,
);

/** What is known now; undefined where nothing has been read yet. */
export interface ObservedMove {
  readonly links?:
    | readonly {
        readonly reservationId: string;
        readonly datacenter: string;
        readonly state: 'active' | 'moved' | 'pending' | 'unreachable' | 'given_up';
      }[]
    | undefined;
  /** The request; null once it is over: then the chain shows the result. */
  readonly request?:
    | {
        readonly toDatacenter: string;
        readonly heldBy: { readonly holder: string } | null;
        readonly failure: string | null;
      }
    | null
    | undefined;
}

export interface MoveProgress {
  readonly stages: readonly Stage[];
  /** `wait`: somebody holds it; `move`: it is being moved; the last three are final. */
  readonly next: 'look' | 'wait' | 'move' | 'arrive' | 'done' | 'elsewhere' | 'failed';
  /** The present stage in words, without a time: screen readers read it out when it changes. */
  readonly text: string;
}

export function moveProgress(move: FollowedMove, observed: ObservedMove): MoveProgress {
  const next = nextOf(move, observed);
  const hasLeft = next === 'arrive' || next === 'done';
  const { fromDatacenter, toDatacenter } = move;
  const stages: Stage[] = [
    stage('Requested', true),
    stage('Nobody holds it', hasLeft || next === 'move'),
    stage(`Sealed and left ${fromDatacenter}`, hasLeft),
    stage(`Active in ${toDatacenter}`, next === 'done'),
  ];
  return { stages, next, text: textOf(move, observed, next) };
}

export function isOver({ next }: Pick<MoveProgress, 'next'>): boolean {
  return next === 'done' || next === 'elsewhere' || next === 'failed';
}

function stage(label: string, isDone: boolean): Stage {
  return { label, isDone, at: null };
}

function nextOf(move: FollowedMove, { links, request }: ObservedMove): MoveProgress['next'] {
  if (links === undefined) return 'look';
  const from = links.findIndex(({ reservationId }) => reservationId === move.fromId);
  const after = from === -1 ? undefined : links[from + 1];
  if (after !== undefined) {
    if (after.datacenter !== move.toDatacenter) return 'elsewhere';
    return after.state === 'active' || after.state === 'moved' ? 'done' : 'arrive';
  }
  if (request === undefined || request === null) return 'look';
  if (request.toDatacenter !== move.toDatacenter) return 'elsewhere';
  if (request.failure !== null) return 'failed';
  return request.heldBy === null ? 'move' : 'wait';
}

function textOf(
  { fromDatacenter, toDatacenter }: FollowedMove,
  { request }: ObservedMove,
  next: MoveProgress['next'],
): string {
  switch (next) {
    case 'look':
      return 'Reading its state.';
    case 'wait':
      return 'It is held, and moves when it is free.';
    case 'move':
      return `Nobody holds it: it leaves ${fromDatacenter} now.`;
    case 'arrive':
      return `It has left ${fromDatacenter} and is not active in ${toDatacenter} yet. The controllers continue to try.`;
    case 'done':
      return `Its home is ${toDatacenter} now.`;
    case 'elsewhere':
      return 'It was moved to another datacenter in the meantime.';
    case 'failed':
      return `${failureText(request?.failure ?? '')} It stays in ${fromDatacenter}.`;
  }
}

/** Why a request has ended without a move. */
export function failureText(failure: string): string {
  if (failure === 'cancelled') return 'The move was cancelled.';
  return failure === 'reservation.key_held'
    ? 'It was granted before it could move.'
    : `It could not be moved: ${failure}.`;
}
