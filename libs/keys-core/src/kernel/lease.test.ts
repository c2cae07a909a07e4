import { describe, expect, test } from 'vitest';
import { type PhaseInput, phaseOf } from './lease.ts';

const held: PhaseInput = {
  releasedAt: null,
  endReason: null,
  expiresAt: 1_000,
  renewable: true,
  stopsBy: null,
};

describe('phaseOf', () => {
  test('C18 at the very instant of its expiry a grant is expired', () => {
    expect(phaseOf(held, 999.999)).toBe('held');
    expect(phaseOf(held, 1_000)).toBe('expired');
  });

  test.each([
    ['renewal blocked', { ...held, renewable: false }, 'expiring'],
    ['released', { ...held, releasedAt: 400, endReason: 'released' }, 'free'],
    ['revoked', { ...held, endReason: 'revoked' }, 'free'],
    ['removed', { ...held, endReason: 'removed' }, 'free'],
    ['ended as expired, whatever a clock says later', { ...held, endReason: 'expired' }, 'expired'],
    [
      'ended by force, its backend perhaps alive',
      { ...held, endReason: 'revoked', stopsBy: 900 },
      'expiring',
    ],
    ['ended by force, its time over', { ...held, endReason: 'revoked', stopsBy: 500 }, 'free'],
  ] as const)('%s', (_, row, phase) => {
    expect(phaseOf(row, 500)).toBe(phase);
  });
});
