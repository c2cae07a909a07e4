import { serviceLadder } from '@leasehold/keys-core';
import { describe, expect, it } from 'vitest';
import { heldKeyForTest } from '~/resources/grant-for-test.ts';
import type { GrantView } from '~/resources/grant-view.ts';
import { drawLadder, fromNow, lanesOf } from './deadline-ladder.tsx';

const RENEWED_MS = Date.parse('2026-11-21T14:00:00.000Z');

const grantOf = (changes: Partial<GrantView> = {}) =>
  heldKeyForTest({ asOf: '2026-11-21T14:00:00.000Z', ...changes });

describe('drawLadder', () => {
  it('draws the four rungs of a key to scale, with now among them', () => {
    const drawing = drawLadder('key', grantOf(), RENEWED_MS + 15_000);
    expect(drawing.rungs.map(({ kind, share }) => [kind, Number(share.toFixed(3))])).toEqual([
      ['renew', 0.5],
      ['soft', 0.667],
      ['hard', 0.833],
      ['expiry', 1],
    ]);
    expect(drawing.now).toBe(0.25);
    expect(drawing.headline).toBe('Held. Next renewal in 15 s.');
  });

  it('draws only one stop for a lease whose ladder has one', () => {
    const drawing = drawLadder('lease', grantOf({ ladder: serviceLadder(60_000) }), RENEWED_MS);
    expect(drawing.rungs.map(({ kind }) => kind)).toEqual(['renew', 'lose', 'expiry']);
    expect(drawing.zones).toHaveLength(3);
  });

  it('moves now back to the beginning when the grant is renewed', () => {
    const before = drawLadder('key', grantOf(), RENEWED_MS + 31_000);
    const renewed = grantOf({ expiresAt: new Date(RENEWED_MS + 91_000).toISOString() });
    const after = drawLadder('key', renewed, RENEWED_MS + 31_000);
    expect(before.now).toBeGreaterThan(0.5);
    expect(after.now).toBe(0);
  });

  it.each([
    [31_000, 'Renewal is due. The drone asks until it is answered. Soft stop in 9 s.'],
    [41_000, 'Not renewed: the backend is being stopped. Hard stop in 9 s.'],
    [51_000, 'Not renewed: the drone has stopped. Free in 9 s.'],
    [62_000, 'Expired 2 s ago: not renewed in time, and nobody has asked for it since.'],
  ])('describes the grant %i ms after its renewal', (afterMs, headline) => {
    expect(drawLadder('key', grantOf(), RENEWED_MS + afterMs).headline).toBe(headline);
  });

  it('says that a blocked grant will not be renewed, and when it is over at the latest', () => {
    const drawing = drawLadder('key', grantOf({ renewable: false }), RENEWED_MS + 18_000);
    expect(drawing.state).toBe('blocked');
    expect(drawing.headline).toBe('Renewal blocked: expires in 42 s at worst.');
    expect(drawing.rungs[0]?.what).toMatch(/refused/u);
  });

  it('shows a key that was ended by force as held back until its backend must be gone', () => {
    const forced = grantOf({
      renewable: false,
      endReason: 'revoked',
      stopsBy: new Date(RENEWED_MS + 60_000).toISOString(),
    });
    expect(drawLadder('key', forced, RENEWED_MS + 20_000)).toMatchObject({
      state: 'held_back',
      headline:
        'Ended by force. Held back for 40 s at most, until its backend is known to be gone.',
    });
    expect(drawLadder('key', forced, RENEWED_MS + 60_000).state).toBe('free');
  });

  it('does not mark now on a grant that is over', () => {
    const released = grantOf({ endReason: 'released', releasedAt: '2026-11-21T14:00:10.000Z' });
    expect(drawLadder('key', released, RENEWED_MS + 20_000)).toMatchObject({
      state: 'free',
      now: null,
    });
  });
});

describe('fromNow', () => {
  it('never shows a negative time', () => {
    expect(fromNow(5_000, 1_000)).toBe('in 4 s');
    expect(fromNow(1_000, 5_000)).toBe('4 s ago');
  });
});

describe('lanesOf', () => {
  it('puts labels that would overlap into separate rows', () => {
    const lanes = (shares: number[], length: number): number[] =>
      lanesOf(shares.map((at) => ({ at, length })));

    expect(lanes([0.5, 0.67, 0.83, 1], 0.1)).toEqual([0, 0, 0, 0]);
    expect(lanes([0.5, 0.67, 0.83, 1], 0.2)).toEqual([0, 1, 0, 1]);
    expect(lanes([0.01, 0.02, 0.03], 0.2)).toEqual([0, 1, 2]);
  });

  it('knows that the last label ends at its mark', () => {
    const last = { at: 1, length: 0.13 };

    expect(lanesOf([{ at: 0.83, length: 0.13 }, last])).toEqual([0, 1]);
    expect(lanesOf([{ at: 0.8, length: 0.13 }, last])).toEqual([0, 0]);
  });
});
