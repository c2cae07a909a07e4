import { describe, expect, test } from 'vitest';
import { boundsInput, expiryOf, NO_BOUNDS, revokeProblem, tokenState } from './states.ts';

const NOW_MS = Date.parse('2026-11-21T12:00:00.000Z');

describe('tokenState', () => {
  test('a token ends at its expiry, to the millisecond', () => {
    const at = (expiresAt: string | null) => tokenState({ revokedAt: null, expiresAt }, NOW_MS);

    expect(at(null)).toBe('active');
    expect(at('2026-12-21T12:00:00.000Z')).toBe('active');
    expect(at('2026-11-28T12:00:00.000Z')).toBe('ending');
    expect(at('2026-11-21T12:00:00.001Z')).toBe('ending');
    expect(at('2026-11-21T12:00:00.000Z')).toBe('expired');
  });

  test('a revoked token counts as revoked even after its expiry', () => {
    const revokedAt = '2026-11-20T12:00:00.000Z';

    expect(tokenState({ revokedAt, expiresAt: '2026-11-21T11:00:00.000Z' }, NOW_MS)).toBe(
      'revoked',
    );
    expect(revokeProblem('revoked')).toContain('already');
    expect(revokeProblem('expired')).toBeUndefined();
  });
});

describe('expiryOf', () => {
  test('counts days from the database’s time', () => {
    expect(expiryOf('30', NOW_MS)).toBe('2026-12-21T12:00:00.000Z');
    expect(expiryOf('never', NOW_MS)).toBeUndefined();
  });
});

describe('boundsInput', () => {
  const all = { namespaces: ['rooms'], programs: ['room'], addresses: ['10.0.0.0/8'], capacity: 5 };

  test('sends only the bounds that the role has, even if others were filled in', () => {
    expect(boundsInput('viewer', all)).toEqual({ namespaces: ['rooms'] });
    expect(boundsInput('client', all)).toEqual({ namespaces: ['rooms'], programs: ['room'] });
    expect(boundsInput('drone', all)).toEqual({
      programs: ['room'],
      addresses: ['10.0.0.0/8'],
      capacity: 5,
    });
  });

  test('a gateway has no bounds: the API refuses them', () => {
    expect(boundsInput('gateway', all)).toEqual({});
  });

  test('sends no bound that was not filled in, but sends a capacity of 0', () => {
    expect(boundsInput('drone', NO_BOUNDS)).toEqual({});
    expect(boundsInput('drone', { ...NO_BOUNDS, capacity: 0 })).toEqual({ capacity: 0 });
  });
});
