import { createFollowed } from '../followed.ts';
import type { FollowedRevoke } from './revoke-progress.ts';

export const followedRevokes = createFollowed<FollowedRevoke>(
  'leasehold.revokes',
  ({ leaseId }) => leaseId,
);
