import { KEY_LADDERS, ladderProblems, type Ladder } from '@leasehold/keys-core';
import { TICK_MS } from '@leasehold/service-kit/boot-clock';
import { seed } from '@leasehold/testing/chance';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { askAtMs, killAtMs, leashMs, renewWindowMs, replyTimeoutMs } from './warden-link.ts';

const HEARTBEAT_MS = 100;

/** Every ladder that a controller accepts. */
const validLadder = fc
  .tuple(
    fc.integer({ min: 1, max: 100_000 }),
    fc.integer({ min: 1, max: 100_000 }),
    fc.integer({ min: 500, max: 100_000 }),
    fc.integer({ min: 500, max: 100_000 }),
  )
  .map(([renewAfterMs, window, goodbye, slack]): Ladder => {
    const softAfterMs = renewAfterMs + window;
    const hardAfterMs = softAfterMs + goodbye;
    return { renewAfterMs, softAfterMs, hardAfterMs, ttlMs: hardAfterMs + slack };
  })
  .filter((ladder) => ladderProblems(ladder, HEARTBEAT_MS).length === 0);

describe('H-frozen-warden the times of the chain from soft to hard', () => {
  test('are in order before hard for every accepted ladder, and the leash acts before the expiry', () => {
    fc.assert(
      fc.property(validLadder, (ladder) => {
        const { softAfterMs, hardAfterMs, ttlMs } = ladder;
        const askedMs = askAtMs(hardAfterMs, ladder) + TICK_MS;
        const givenUpMs = askedMs + replyTimeoutMs([ladder]);
        const killedMs = killAtMs(hardAfterMs, ladder) + TICK_MS;

        expect(askAtMs(hardAfterMs, ladder)).toBe(softAfterMs);
        expect(givenUpMs).toBeLessThanOrEqual(killAtMs(hardAfterMs, ladder));
        expect(killedMs).toBeLessThan(hardAfterMs);
        expect(hardAfterMs + leashMs(ladder)).toBeGreaterThan(hardAfterMs + 2 * TICK_MS);
        expect(hardAfterMs + leashMs(ladder)).toBeLessThan(ttlMs - 2 * TICK_MS);
      }),
      { seed: seed() },
    );
  });

  test.each([
    { preset: 'standard', reply: 3_000, kill: 47_500, leash: 52_500 },
    { preset: 'fast', reply: 500, kill: 4_750, leash: 5_250 },
  ] as const)(
    'are of `$preset`: $reply ms for a reply, killed at $kill ms, the leash at $leash ms',
    (of) => {
      const ladder = KEY_LADDERS[of.preset];

      expect(replyTimeoutMs([ladder])).toBe(of.reply);
      expect(killAtMs(ladder.hardAfterMs, ladder)).toBe(of.kill);
      expect(ladder.hardAfterMs + leashMs(ladder)).toBe(of.leash);
    },
  );

  test('are those of the shortest of several ladders', () => {
    expect(replyTimeoutMs([KEY_LADDERS.standard, KEY_LADDERS.fast])).toBe(500);
    expect(renewWindowMs([KEY_LADDERS.fast, KEY_LADDERS.standard])).toBe(10_000);
  });
});
