import { describe, expect, test } from 'vitest';
import { sinceSentMs } from './acquire-answers.ts';

/** A call that had reached the controller 2.6 s before it asked for the grant, by its clock. */
const CALL = { startedAtMs: 10_000, askedAtMs: 12_600 };
const JOINED_AS_OF = 500_000;

describe('the time between a message and its grant', () => {
  test('is since the caller joined the line, by the clock of the database', () => {
    const grant = { asOf: JOINED_AS_OF + 2_000, remainingMs: 900 };

    expect(sinceSentMs(CALL, grant, JOINED_AS_OF)).toBe(2_000);
  });

  test('is no more than by the clock of the controller, when the other has stepped forward', () => {
    const grant = { asOf: JOINED_AS_OF + 5_000, remainingMs: 900 };

    expect(sinceSentMs(CALL, grant, JOINED_AS_OF)).toBe(2_600);
  });

  test('is 0 for a grant that is over, so that its deadline is before its request', () => {
    const grant = { asOf: JOINED_AS_OF + 2_000, remainingMs: 0 };

    expect(sinceSentMs(CALL, grant, JOINED_AS_OF)).toBe(0);
  });
});
