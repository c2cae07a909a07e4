import { DRONE_STATUSES } from '@leasehold/keys-core';
import { describe, expect, test } from 'vitest';
import { DRONE_LOOKS } from '~/resources/looks.tsx';
import { actProblem, droneNotice, isolationFacts, roundTrip, typedFor } from './drones.tsx';

const READY = {
  draining: false,
  lostAt: null,
  stoppedAt: null,
  isConnected: true,
  backendCount: 2,
};
const DRAINING = { ...READY, draining: true };
const LOST = { ...DRAINING, isConnected: false, lostAt: '2026-11-21T10:00:00.000Z' };
const STOPPED = {
  ...READY,
  isConnected: false,
  backendCount: 0,
  stoppedAt: '2026-11-21T10:00:00.000Z',
};

describe('actProblem', () => {
  test('offers each act where it changes something', () => {
    expect(actProblem('drain', READY)).toBeUndefined();
    expect(actProblem('undrain', DRAINING)).toBeUndefined();
    expect(actProblem('undrain', LOST)).toBeUndefined();
    expect(actProblem('markLost', READY)).toBeUndefined();
    expect(actProblem('markLost', DRAINING)).toBeUndefined();
    expect(actProblem('stop', READY)).toBeUndefined();
    expect(actProblem('stop', DRAINING)).toBeUndefined();
    expect(actProblem('remove', STOPPED)).toBeUndefined();
    expect(actProblem('remove', { ...LOST, backendCount: 0 })).toBeUndefined();
  });

  test('says why an act would change nothing', () => {
    expect(actProblem('drain', DRAINING)).toContain('already');
    expect(actProblem('drain', LOST)).toContain('lost');
    expect(actProblem('undrain', READY)).toContain('not draining');
    expect(actProblem('markLost', LOST)).toContain('already');
    expect(actProblem('stop', STOPPED)).toContain('no backends');
    expect(actProblem('stop', LOST)).toContain('lost');
    expect(actProblem('remove', READY)).toContain('stop it first');
    expect(actProblem('remove', LOST)).toContain('2 backends may still run');
  });
});

describe('droneNotice', () => {
  const at = { backendCount: 2, draining: true, heartbeatAgeMs: 240_000 };

  test('says nothing about a healthy drone', () => {
    expect(droneNotice({ ...at, status: 'ready', draining: false })).toBeUndefined();
  });

  test.each(DRONE_STATUSES.filter((status) => status !== 'ready'))(
    'of a drone that is %s has the colour that this state has in lists',
    (status) => {
      expect(droneNotice({ ...at, status })?.tone).toBe(DRONE_LOOKS[status].tone);
    },
  );

  test('is calm about a drone that was stopped: nothing is wrong', () => {
    expect(droneNotice({ ...at, status: 'stopped', backendCount: 0 })).toMatchObject({
      tone: 'calm',
      text: expect.stringContaining('none of its backends run') as string,
    });
  });

  test('says how many backends a drained drone still has', () => {
    expect(droneNotice({ ...at, status: 'draining' })?.text).toContain('2 backends still there');
    expect(droneNotice({ ...at, status: 'draining', backendCount: 0 })?.text).toContain('none');
  });

  test('says for how long no heartbeat was received', () => {
    expect(droneNotice({ ...at, status: 'unreachable' })?.text).toContain('for 4 min');
    expect(droneNotice({ ...at, status: 'unreachable', heartbeatAgeMs: null })?.text).toContain(
      'since it registered',
    );
  });
});

test('a drone that an operator has marked lost is amber, as in the verdict of the overview', () => {
  const lost = { draining: true, backendCount: 0, heartbeatAgeMs: null, status: 'lost' } as const;
  expect(droneNotice(lost)?.tone).toBe('warn');
});

describe('roundTrip', () => {
  test('shows tenths for short trips', () => {
    expect(roundTrip(0)).toBe('< 0.1 ms');
    expect(roundTrip(1.42)).toBe('1.4 ms');
    expect(roundTrip(35.2)).toBe('35 ms');
    expect(roundTrip(1_200)).toBe('1 s');
  });
});

describe('isolationFacts', () => {
  test('says what isolates programs from the drone, and what is missing', () => {
    const facts = new Map(
      isolationFacts({
        user: 'shared',
        pidNamespace: true,
        privateProc: false,
        hiddenHome: false,
        noNewPrivs: true,
        detail: 'missing: mount namespaces',
      }),
    );

    expect(facts.get('Programs run as')).toBe('the drone’s own user');
    expect(facts.get('Isolation of programs')).toBe(
      'PID namespace, no new privileges; missing: mount namespaces',
    );
  });

  test('claims no isolation for a drone that does not report it', () => {
    expect(isolationFacts(null)).toEqual([
      ['Isolation of programs', 'not reported by this version'],
    ]);
  });
});

describe('what is typed before an act on a drone', () => {
  const drone = { droneId: 'drone-1', backendCount: 3 };

  test('is how many backends stop, where those are several', () => {
    expect(typedFor('stop', drone)?.text).toBe('3');
    expect(typedFor('stop', { ...drone, backendCount: 1 })).toBeUndefined();
  });

  test('is its id where the act cannot be undone, and nothing where it can', () => {
    expect(typedFor('markLost', drone)?.text).toBe('drone-1');
    expect(typedFor('remove', drone)?.text).toBe('drone-1');
    expect(typedFor('drain', drone)).toBeUndefined();
  });
});
