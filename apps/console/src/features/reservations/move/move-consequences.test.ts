import { KEY_LADDERS } from '@leasehold/keys-core';
import { expect, test } from 'vitest';
import type { GrantView } from '~/resources/grant-view.ts';
import { moveConsequences } from './move-consequences.ts';

const NOW_MS = Date.parse('2026-11-21T14:00:20.000Z');
const HELD: GrantView = {
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
};

const of = (grant: GrantView | null | undefined) =>
  moveConsequences({ from: 'dc1', to: 'dc2', grant }, NOW_MS);

test('a free key is sealed and taken over at once', () => {
  const { holder, steps } = of(null);

  expect(holder).toBe('Nobody holds it.');
  expect(steps[0]).toContain('dc1 seals it');
  expect(steps[1]).toContain('dc2 takes it over');
});

test('a held key says who holds it, that it is revoked first, and how long that can take', () => {
  const { holder, steps, worstCase } = of(HELD);

  expect(holder).toContain('Drone drone-1 holds it');
  expect(holder).toContain('revoked first');
  expect(steps.join(' ')).toMatch(/SIGTERM now.*dc1 seals it/u);
  expect(worstCase).toContain('within 50 s at the latest');
});

test('a key that is held back after a forced revoke moves when that is over', () => {
  const { holder, worstCase } = of({
    ...HELD,
    phase: 'expiring',
    endReason: 'revoked',
    stopsBy: '2026-11-21T14:00:50.000Z',
  });

  expect(holder).toContain('held back');
  expect(worstCase).toContain('within 30 s at the latest');
});
