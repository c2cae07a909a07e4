import { KEY_LADDERS } from '@leasehold/keys-core';
import type { GrantView } from './grant-view.ts';

/** A key that a drone holds, renewed at 14:00:00 for a minute. */
export function heldKeyForTest(changes: Partial<GrantView> = {}): GrantView {
  return {
    name: 'room-1',
    namespace: 'rooms',
    phase: 'held',
    leaseId: 'a',
    fencingToken: '5',
    holder: 'drone-1',
    droneId: 'drone-1',
    backendId: 'bk-1',
    backendStatus: 'ready',
    grantedAt: '2026-11-21T13:00:00.000Z',
    renewedAt: '2026-11-21T14:00:00.000Z',
    expiresAt: '2026-11-21T14:01:00.000Z',
    renewable: true,
    ladder: KEY_LADDERS.standard,
    stopsBy: null,
    endReason: null,
    releasedAt: null,
    asOf: '2026-11-21T14:00:20.000Z',
    ...changes,
  };
}
