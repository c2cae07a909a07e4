import { createFollowed } from '~/resources/actions/followed.ts';

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
