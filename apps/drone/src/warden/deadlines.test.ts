import { describe, expect, test } from 'vitest';
import { extensionProblem, startProblem, type HeldDeadlines } from './deadlines.ts';

const held: HeldDeadlines = {
  leaseId: 'one',
  softAtMs: 40_000,
  hardAtMs: 50_000,
  hardAfterMs: 50_000,
};

describe('a deadline of the warden', () => {
  test('moves later for the same lease, within the ladder from now', () => {
    const offered = { leaseId: 'one', softAtMs: 70_000, hardAtMs: 80_000 };

    expect(extensionProblem(held, offered, 30_000)).toBeUndefined();
    expect(extensionProblem(held, offered, 29_900)).toBe('too_far_ahead');
  });

  test('moves also when the agent’s reading of the clock is ahead by one of its steps', () => {
    const offered = { leaseId: 'one', softAtMs: 70_000, hardAtMs: 80_000 };

    expect(extensionProblem(held, offered, 29_990)).toBeUndefined();
    expect(startProblem({ ...held, ...offered }, 29_990)).toBeUndefined();
  });

  test('is not moved for another lease', () => {
    const offered = { leaseId: 'two', softAtMs: 70_000, hardAtMs: 80_000 };

    expect(extensionProblem(held, offered, 30_000)).toBe('other_lease');
  });

  test('never moves back, neither soft nor hard', () => {
    expect(
      extensionProblem(held, { leaseId: 'one', softAtMs: 39_000, hardAtMs: 55_000 }, 30_000),
    ).toBe('not_later');
    expect(
      extensionProblem(held, { leaseId: 'one', softAtMs: 45_000, hardAtMs: 50_000 }, 30_000),
    ).toBe('not_later');
  });

  test('never moves once soft has passed, whether or not a tick has noticed', () => {
    const offered = { leaseId: 'one', softAtMs: 70_000, hardAtMs: 80_000 };

    expect(extensionProblem(held, offered, 40_000)).toBe('stopping');
  });

  test('starts nothing when soft has passed, or when it is of another clock', () => {
    expect(startProblem(held, 0)).toBeUndefined();
    expect(startProblem(held, 40_000)).toBe('too_late');
    expect(startProblem({ ...held, softAtMs: 864_040_000, hardAtMs: 864_050_000 }, 5_000)).toBe(
      'too_far_ahead',
    );
    expect(startProblem({ ...held, softAtMs: 50_000 }, 0)).toBe('out_of_order');
  });
});
