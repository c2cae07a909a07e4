import { createFollowed } from '~/resources/actions/followed.ts';
import type { FollowedMove } from './move-progress.ts';

export const followedMoves = createFollowed<FollowedMove>(
  'leasehold.moves',
  ({ fromId }) => fromId,
);
