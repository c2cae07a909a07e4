import { describe, expect, test } from 'vitest';
import { sinceSentMs } from './acquire-answers.ts';

const JOINED_AS_OF = 500_000;
/** A call that joined the line, and reached the controller 2.6 s ago by its clock. */
const WAITED = { joinedAsOf: JOINED_AS_OF, elapsedMs: 2_600 };

describe('the time between a message and its grant', () => {
  test('is since the caller joined the line, by the clock of the database', () => {
    const grant = { asOf: JOINED_AS_OF + 2_000, remainingMs: 900 };

    expect(sinceSentMs(grant, WAITED)).toBe(2_000);
  });

  test('is no more than by the clock of the controller, when the other has stepped forward', () => {
    const grant = { asOf: JOINED_AS_OF + 5_000, remainingMs: 900 };

    expect(sinceSentMs(grant, WAITED)).toBe(2_600);
  });

  test('is 0 for a grant that is over, so that its deadline is before its request', () => {
    const grant = { asOf: JOINED_AS_OF + 2_000, remainingMs: 0 };

    expect(sinceSentMs(grant, WAITED)).toBe(0);
  });
});
