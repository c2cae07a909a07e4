import { expect, it } from 'vitest';
import { holdersToken } from './grant-view.ts';

it('shows the token that the last holder was given, also after a revocation by force raised it', () => {
  expect(holdersToken({ fencingToken: '1795631564818', endReason: 'revoked' })).toBe(
    '1795631564817',
  );
  expect(holdersToken({ fencingToken: '7', endReason: 'released' })).toBe('7');
});
