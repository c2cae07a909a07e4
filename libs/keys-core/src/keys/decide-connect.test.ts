import { describe, expect, test } from 'vitest';
import { BACKEND_STATUSES } from '../kernel/backends.ts';
import { decideConnect, grantStatusOf, type KeyState } from './decide-connect.ts';

const ASKED = { tag: 'blue', hasSpawn: true };

function state(
  change: {
    lease?: object;
    backend?: object | null;
    isDroneReachable?: boolean;
    isStopAsked?: boolean;
    doubtMs?: number;
    delayMs?: number;
  } = {},
): KeyState {
  return {
    lease: {
      leaseId: 'l',
      fencingToken: '1',
      holder: 'd1',
      tag: 'blue',
      grantedAt: 0,
      renewedAt: 0,
      ttlMs: 60_000,
      expiresAt: 60_000,
      releasedAt: null,
      endReason: null,
      renewable: true,
      stopsBy: null,
      asOf: 10_000,
      ...change.lease,
    },
    backend:
      change.backend === null
        ? null
        : {
            id: 'b1',
            status: 'ready',
            address: 'h:1',
            droneId: 'd1',
            hasIdleStop: false,
            ...change.backend,
          },
    isDroneReachable: change.isDroneReachable ?? true,
    isStopAsked: change.isStopAsked ?? false,
    homeReservation: null,
    doubtMs: change.doubtMs ?? 0,
    delayMs: change.delayMs ?? 0,
  };
}

describe('decideConnect', () => {
  test('waits for a free key whose last backends have failed, and returns one that runs', () => {
    const free = { endReason: 'released', releasedAt: 5_000 };
    const delayed = { do: 'wait', code: 'backend.crash_loop', remainingMs: 4_000 };

    expect(decideConnect(state({ lease: free, delayMs: 4_000 }), ASKED)).toEqual(delayed);
    expect(decideConnect(state({ lease: free }), ASKED)).toEqual({ do: 'spawn' });
    expect(decideConnect(state({ delayMs: 4_000 }), ASKED)).toEqual({ do: 'return' });
  });

  test('returns a held key with a living backend on a reachable drone, even without spawn', () => {
    expect(decideConnect(state(), ASKED)).toEqual({ do: 'return' });
    expect(decideConnect(state(), { ...ASKED, hasSpawn: false })).toEqual({ do: 'return' });
  });

  test('H-first-statement waits for a key whose expiry is not believed, and does not spawn', () => {
    const doubted = state({ lease: { asOf: 60_000 }, doubtMs: 40_000 });

    expect(decideConnect(doubted, ASKED)).toEqual({
      do: 'wait',
      code: 'grant.hold_off',
      remainingMs: 40_000,
    });
    expect(decideConnect({ ...doubted, doubtMs: 0 }, ASKED)).toEqual({ do: 'spawn' });
  });

  test('C5 refuses another tag before it checks anything else', () => {
    const terminating = state({ backend: { status: 'terminating' }, isDroneReachable: false });

    expect(decideConnect(terminating, { ...ASKED, tag: 'red' })).toEqual({
      do: 'refuse',
      code: 'key.tag_mismatch',
    });
  });

  test.each(BACKEND_STATUSES.slice(5))('C31 waits for a backend that is %s', (status) => {
    expect(decideConnect(state({ backend: { status } }), ASKED)).toEqual({
      do: 'wait',
      code: 'key.terminating',
      remainingMs: 50_000,
    });
  });

  test('C31 waits for a backend whose stop was requested, even before its drone knows', () => {
    expect(decideConnect(state({ isStopAsked: true }), ASKED)).toMatchObject({
      do: 'wait',
      code: 'key.terminating',
    });
  });

  test('waits for a key whose renewal is blocked', () => {
    expect(decideConnect(state({ lease: { renewable: false } }), ASKED)).toMatchObject({
      do: 'wait',
      code: 'key.terminating',
    });
  });

  test('waits for a key that was ended by force until its backend must be gone', () => {
    const forced = state({ lease: { endReason: 'revoked', stopsBy: 25_000 } });

    expect(decideConnect(forced, ASKED)).toEqual({
      do: 'wait',
      code: 'key.terminating',
      remainingMs: 15_000,
    });
  });

  test('waits for a key on a drone that sends no heartbeats', () => {
    expect(decideConnect(state({ isDroneReachable: false }), ASKED)).toEqual({
      do: 'wait',
      code: 'key.holder_unreachable',
      remainingMs: 50_000,
    });
  });

  test.each([
    ['never held', undefined],
    ['released', state({ lease: { releasedAt: 1, endReason: 'released' } })],
    [
      'expired, though its backend is said to be terminating',
      state({ lease: { asOf: 60_000 }, backend: { status: 'terminating' } }),
    ],
    ['expired under another tag', state({ lease: { asOf: 60_000, tag: 'red' } })],
  ])('C7 C19 spawns for a key that is %s; without spawn the key is unheld', (_, key) => {
    expect(decideConnect(key, ASKED)).toEqual({ do: 'spawn' });
    expect(decideConnect(key, { ...ASKED, hasSpawn: false })).toEqual({
      do: 'refuse',
      code: 'key.unheld',
    });
  });
});

test.each([
  ['active', state()],
  ['active', state({ lease: { renewable: false } })],
  ['active', state({ lease: { endReason: 'revoked', releasedAt: 5_000, stopsBy: 60_000 } })],
  ['expired', state({ lease: { asOf: 60_000 }, doubtMs: 40_000 })],
  ['free', state({ lease: { endReason: 'released', releasedAt: 5_000 }, delayMs: 4_000 })],
  ['free', undefined],
] as const)(
  'the metric of grants counts a refusal as %s, however the key was found',
  (status, found) => {
    expect(grantStatusOf(found)).toBe(status);
  },
);
