import { describe, expect, test } from 'vitest';
import { type HeldBy, LeaseHeldError, LeaseWaitTimeoutError } from './lease.ts';

const SCOPE = { face: 'lease', namespace: ['jobs'], key: 'clean' } as const;
const HELD: HeldBy = {
  by: 'worker-1',
  since: '2026-11-25T03:12:00.000Z',
  remainingMs: 20_000,
  waitedMs: 0,
  comment: null,
  action: null,
  waiters: 0,
};

describe('the error for a lease that somebody else has', () => {
  test.each<[string, Partial<HeldBy>, string]>([
    ['its holder', {}, 'is held by worker-1.'],
    [
      'the first in line when its time is over',
      { remainingMs: 0 },
      'is about to be granted to worker-1.',
    ],
    [
      'nobody while nobody has looked, as in a hold-off',
      { by: 'unknown', since: '1970-01-01T00:00:00.000Z', remainingMs: 0 },
      'may be held: who has it is not known now.',
    ],
  ])('names %s', (_what, change, text) => {
    const heldBy = { ...HELD, ...change };

    expect(new LeaseHeldError(SCOPE, heldBy).message).toBe(`jobs/clean ${text}`);
    expect(new LeaseWaitTimeoutError(SCOPE, heldBy).message).toBe(
      `jobs/clean was not free in time; it ${text}`,
    );
  });
});
