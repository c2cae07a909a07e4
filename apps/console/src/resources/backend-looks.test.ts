import { describe, expect, test } from 'vitest';
import { TERMINATION_REASONS } from '@leasehold/keys-core';
import type { KeyFailuresView } from '@leasehold/keys-core/keys';
import { endOf, endSentence, failingText, failureLabel } from './backend-looks.ts';

const CRASHED = {
  status: 'terminated',
  reason: 'exited',
  exitCode: 17,
  address: '127.0.0.1:4000',
} as const;

describe('how a backend ended', () => {
  test.each([
    [CRASHED, 'Crashed (17)'],
    [{ ...CRASHED, exitCode: 137 }, 'Killed by SIGKILL'],
    [{ ...CRASHED, exitCode: 139 }, 'Killed by SIGSEGV'],
    [{ ...CRASHED, exitCode: null }, 'Ended, code unknown'],
    [{ ...CRASHED, exitCode: 0, address: null }, 'Ended before it was ready'],
    [{ ...CRASHED, reason: 'startup_timeout', exitCode: 143 }, 'Not ready in time'],
    [{ ...CRASHED, reason: 'internal', exitCode: null }, 'Could not be run'],
    [{ ...CRASHED, reason: 'refused', exitCode: null, address: null }, 'Refused by its drone'],
  ] as const)('a failure has its own words: %o', (backend, label) => {
    expect(failureLabel(backend)).toBe(label);
  });

  test('an end that was asked for, an exit with code 0, and a running backend are no failures', () => {
    expect(failureLabel({ ...CRASHED, exitCode: 0 })).toBeUndefined();
    for (const reason of TERMINATION_REASONS) {
      if (['exited', 'startup_timeout', 'internal', 'refused'].includes(reason)) continue;
      expect(failureLabel({ ...CRASHED, reason, exitCode: 137 }), reason).toBeUndefined();
    }
    expect(
      failureLabel({ ...CRASHED, status: 'ready', reason: null, exitCode: null }),
    ).toBeUndefined();
  });

  test('lists say why, as the command line does', () => {
    expect(endOf(CRASHED)).toBe('it crashed with exit code 17');
    expect(endOf({ reason: 'revoked', exitCode: 143 })).toBe(
      'its key was revoked; exited, code 143',
    );
    expect(endOf({ reason: null, exitCode: null })).toBeUndefined();
  });

  test('a sentence says how, how long after its start, and what its drone adds', () => {
    const state = { detail: null, at: '2026-11-27T12:00:00.000Z' };
    const backend = {
      ...CRASHED,
      address: null,
      statusAt: '2026-11-27T12:00:02.500Z',
      states: [
        { ...state, status: 'scheduled' },
        { ...state, status: 'waiting' },
        { ...state, status: 'terminated' },
      ],
    } as const;
    expect(endSentence(backend)).toBe(
      'It crashed with exit code 17, 2.5 s after its start, before it was ready.',
    );
    expect(
      endSentence({
        ...backend,
        reason: 'internal',
        exitCode: null,
        states: [{ ...state, status: 'terminated', detail: 'no such command: nod' }],
      }),
    ).toBe('It could not be run, before it was ready: no such command: nod');
    expect(
      endSentence({
        ...backend,
        reason: 'refused',
        exitCode: null,
        states: [{ ...state, status: 'terminated', detail: 'the drone is full' }],
      }),
    ).toBe('Its drone refused to start it: the drone is full');
    expect(endSentence({ ...backend, reason: 'startup_timeout', exitCode: 143 })).toBe(
      'It was not ready in time, 2.5 s after its start.',
    );
  });
});

const FAILING = {
  failures: 25,
  since: '2026-11-20T10:00:00.000Z',
  failedAt: '2026-11-20T10:04:59.000Z',
  startAt: '2026-11-20T10:05:59.000Z',
  backendId: 'b1',
  reason: 'exited' as const,
  exitCode: 17,
} satisfies KeyFailuresView;

test.each([
  [{}, 'Crashed (17), 25 times in 5 min'],
  [{ failures: 1 }, 'Crashed (17)'],
  [{ exitCode: 137 }, 'Killed by SIGKILL, 25 times in 5 min'],
  [{ exitCode: 0 }, 'Ended before it was ready, 25 times in 5 min'],
  [{ reason: 'startup_timeout', exitCode: null }, 'Not ready in time, 25 times in 5 min'],
  [{ reason: 'internal', exitCode: null }, 'Could not be run, 25 times in 5 min'],
  [{ reason: null, exitCode: null }, 'Failed, 25 times in 5 min'],
] satisfies [Partial<KeyFailuresView>, string][])(
  'the failures of a key say how and how often: %j',
  (change, text) => {
    expect(failingText({ ...FAILING, ...change }, '2026-11-20T10:05:00.000Z')).toBe(text);
  },
);
