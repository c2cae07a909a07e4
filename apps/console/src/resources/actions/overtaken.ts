import { isStopping } from '@leasehold/keys-core';
import { isInForce, type GrantView } from '../grant-view.ts';

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

/** What has become of a grant since a dialog about it was opened; undefined while it is as it was. Pure. */
export function overtakenBy(grant: Seen, latest: Seen | null | undefined): Overtaken | undefined {
  if (latest === undefined || !isInForce(grant)) return undefined;
  if (latest === null) return { text: 'It has been removed meanwhile.', isOver: true };
  if (latest.leaseId !== grant.leaseId) {
    return {
      text: `This grant has ended meanwhile, and ${latest.holder} has the next one. Close this, and look at that.`,
      isOver: true,
    };
  }
  if (latest.endReason === 'revoked') {
    return { text: 'Another person has revoked it meanwhile.', isOver: true };
  }
  if (!isInForce(latest)) return { text: 'The grant has ended meanwhile.', isOver: true };
  if (isStoppingNow(latest) && !isStoppingNow(grant)) {
    return {
      text: 'Its backend has begun to stop meanwhile: another person has stopped it, or has revoked the key.',
      isOver: false,
    };
  }
  if (latest.renewable === grant.renewable) return undefined;
  return {
    text: `Another person has ${latest.renewable ? 'allowed its renewal again' : 'blocked its renewal'} meanwhile.`,
    isOver: false,
  };
}

function isStoppingNow({ backendStatus }: Seen): boolean {
  return backendStatus !== undefined && backendStatus !== null && isStopping(backendStatus);
}
