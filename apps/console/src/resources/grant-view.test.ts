import { describe, expect, it, test } from 'vitest';
import { holdersToken, whyEnded } from './grant-view.ts';

it('shows the token that the last holder was given, also after a revocation by force raised it', () => {
  expect(holdersToken({ fencingToken: '1795631564818', endReason: 'revoked' })).toBe(
    '1795631564817',
  );
  expect(holdersToken({ fencingToken: '7', endReason: 'released' })).toBe('7');
});

describe('why nobody holds it any more, in words', () => {
  const crashed = { reason: 'exited', exitCode: 17, hasFailed: true } as const;
  test.each([
    [{ endReason: 'released', backendEnd: crashed }, 'it crashed with exit code 17'],
    [{ endReason: 'released', backendEnd: null }, 'its holder released it'],
    [{ endReason: 'released' }, 'its holder released it'],
    [{ endReason: 'expired', backendEnd: crashed }, 'it expired without a renewal'],
    [{ endReason: 'revoked', backendEnd: crashed }, 'it was revoked by force'],
    [{ endReason: 'removed' }, 'its record was removed'],
    [{ endReason: null }, null],
  ] as const)('%o', (grant, text) => {
    expect(whyEnded(grant)).toBe(text);
  });
});
