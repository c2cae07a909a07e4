/**
 * The moves that somebody has asked for in this tab and that are not seen through to their end. They
 * stay while the console is walked through, and a reload keeps them.
 */
import { createSignal } from '~/lib/signal.ts';
import type { FollowedMove } from './move-progress.ts';

/** With whose they are: another person who signs in in this tab has not made them. */
let stored = 'leasehold.moves';
const KEPT_MAX = 3;

export const followedMoves = createSignal<readonly FollowedMove[]>([]);

/** Begins to follow a move; of many, the newest are kept. */
export function followMove(move: FollowedMove): void {
  store([move, ...others(move.fromId)]);
}

/** Somebody has seen enough of it, or it was refused. */
export function unfollowMove(fromId: string): void {
  store(others(fromId));
}

/** Reads what this person followed in this tab before it was loaded again. */
export function readFollowedMoves(actor: string): void {
  stored = `leasehold.moves ${actor}`;
  const text = window.sessionStorage.getItem(stored);
  if (text === null) {
    followedMoves.set([]);
    return;
  }
  try {
    followedMoves.set(JSON.parse(text) as FollowedMove[]);
  } catch {
    window.sessionStorage.removeItem(stored);
  }
}

function others(fromId: string): readonly FollowedMove[] {
  return followedMoves.get().filter((move) => move.fromId !== fromId);
}

function store(moves: readonly FollowedMove[]): void {
  const kept = moves.slice(0, KEPT_MAX);
  followedMoves.set(kept);
  window.sessionStorage.setItem(stored, JSON.stringify(kept));
}
