import { describe, expect, test } from 'vitest';
import { KEY_LADDERS, type Deadlines } from '../kernel/ladder.ts';
import { GAP_MS, isFirstGrantPlausible, LeaseKeeper, type KeeperEffect } from './lease-keeper.ts';

const ladder = KEY_LADDERS.standard;
const TICK_MS = 100;

function deadlinesFromSending(sentAtMs: number): Deadlines {
  return {
    renewAtMs: sentAtMs + ladder.renewAfterMs,
    softTerminateAtMs: sentAtMs + ladder.softAfterMs,
    hardTerminateAtMs: sentAtMs + ladder.hardAfterMs,
  };
}

function keeperAt(nowMs: number, isConfirmed = true): LeaseKeeper {
  const deadlines = deadlinesFromSending(nowMs);
  return new LeaseKeeper({ ladder, deadlines, isConfirmed, nowMs, random: () => 0 });
}

/** Ticks from one reading to another; returns every effect with the reading that it came at. */
function run(
  keeper: LeaseKeeper,
  fromMs: number,
  toMs: number,
): (KeeperEffect & { atMs: number })[] {
  const effects: (KeeperEffect & { atMs: number })[] = [];
  for (let atMs = fromMs; atMs <= toMs; atMs += TICK_MS) {
    effects.push(...keeper.tick(atMs).map((effect) => ({ ...effect, atMs })));
  }
  return effects;
}

describe('renewal', () => {
  test('is requested at renewAt, and not before', () => {
    const keeper = keeperAt(0);

    expect(run(keeper, 0, 29_900)).toEqual([]);
    expect(keeper.tick(30_000)).toEqual([{ kind: 'renew', requestId: 1 }]);
  });

  test('moves the deadlines later and keeps the holder acting', () => {
    const keeper = keeperAt(0);
    run(keeper, 0, 30_000);

    const effects = keeper.renewed(1, deadlinesFromSending(30_000), 30_100);

    expect(effects).toEqual([]);
    expect(keeper.deadlines).toEqual(deadlinesFromSending(30_000));
    expect(keeper.mayAct(69_900)).toBe(false); // a gap: no tick came in between
    expect(run(keeper, 30_200, 59_900)).toEqual([]);
    expect(keeper.mayAct(59_900)).toBe(true);
  });

  test('C16 is tried at least three times before the soft deadline when replies are lost', () => {
    const keeper = keeperAt(0);

    const tries = run(keeper, 0, 39_900).filter((effect) => effect.kind === 'renew');

    expect(tries.length).toBeGreaterThanOrEqual(3);
    expect(keeper.isStopping).toBe(false);
  });

  test('is retried soon after a failure, and after a longer wait with each further one', () => {
    const keeper = keeperAt(0);
    run(keeper, 0, 30_000);

    keeper.failed(1, 30_010);

    expect(keeper.tick(30_050)).toEqual([]);
    expect(keeper.tick(30_060)).toEqual([{ kind: 'renew', requestId: 2 }]);
    keeper.failed(2, 30_070);
    expect(keeper.tick(30_160)).toEqual([]);
    expect(keeper.tick(30_170)).toEqual([{ kind: 'renew', requestId: 3 }]);
  });

  test('accepts the answer to an earlier try after its timeout', () => {
    const keeper = keeperAt(0);
    const tries = run(keeper, 0, 36_100).filter((effect) => effect.kind === 'renew');
    expect(tries.map((effect) => effect.requestId)).toEqual([1, 2, 3]);

    keeper.renewed(1, deadlinesFromSending(30_000), 36_150);

    expect(keeper.deadlines).toEqual(deadlinesFromSending(30_000));
    expect(run(keeper, 36_200, 59_900)).toEqual([]);
  });

  test('C17b a late reply to an older renewal changes nothing', () => {
    const keeper = keeperAt(0);
    run(keeper, 0, 33_000);
    keeper.renewed(2, deadlinesFromSending(33_000), 33_050);

    const effects = keeper.renewed(1, deadlinesFromSending(30_000), 33_060);

    expect(effects).toEqual([]);
    expect(keeper.deadlines).toEqual(deadlinesFromSending(33_000));
  });

  test('I8 a repeated reply, and a reply to a request never sent, move no deadline', () => {
    const keeper = keeperAt(0);
    run(keeper, 0, 30_000);
    keeper.renewed(1, deadlinesFromSending(30_000), 30_050);

    keeper.renewed(1, deadlinesFromSending(31_000), 31_000);
    keeper.renewed(7, deadlinesFromSending(31_000), 31_000);

    expect(keeper.deadlines).toEqual(deadlinesFromSending(30_000));
  });

  test('an answer that leaves less time than the holder has moves no deadline', () => {
    const keeper = keeperAt(0);
    run(keeper, 0, 30_000);

    keeper.renewed(1, deadlinesFromSending(-5_000), 30_050);

    expect(keeper.deadlines).toEqual(deadlinesFromSending(0));
  });

  test('C47 deadlines further ahead than the ladder is long are refused', () => {
    const keeper = keeperAt(0);
    run(keeper, 0, 30_000);

    keeper.renewed(1, deadlinesFromSending(864_000_000), 30_050);

    expect(keeper.deadlines).toEqual(deadlinesFromSending(0));
  });
});

describe('refusal', () => {
  test('C15 a blocked renewal stops the holder at once and leaves it the time from soft to hard', () => {
    const keeper = keeperAt(0);
    run(keeper, 0, 30_000);

    const effects = keeper.refused(1, 'renewal_blocked', 30_050);

    expect(effects).toEqual([{ kind: 'soft_terminate', reason: 'renewal_refused' }]);
    expect(run(keeper, 30_100, 41_000)).toEqual([
      { kind: 'hard_terminate', reason: 'renewal_refused', atMs: 40_100 },
    ]);
  });

  test.each(['expired', 'superseded'] as const)(
    '%s: another holder may have the key, so hard follows soft at once',
    (reason) => {
      const keeper = keeperAt(0);
      run(keeper, 0, 30_000);

      const effects = keeper.refused(1, reason, 30_050);

      expect(effects).toEqual([
        { kind: 'soft_terminate', reason: 'key_expired' },
        { kind: 'hard_terminate', reason: 'key_expired' },
      ]);
    },
  );

  test('of an older request does not undo a newer renewal when blocking was lifted in between', () => {
    const keeper = keeperAt(0);
    run(keeper, 0, 33_000);
    keeper.renewed(2, deadlinesFromSending(33_000), 33_050);

    expect(keeper.refused(1, 'renewal_blocked', 33_100)).toEqual([]);
    expect(keeper.refused(1, 'revoked', 33_100)).toEqual([
      { kind: 'soft_terminate', reason: 'revoked' },
    ]);
  });
});

describe('stopping', () => {
  test('C22 soft comes before hard, each once', () => {
    const keeper = keeperAt(0);

    const stops = run(keeper, 0, 70_000).filter((effect) => effect.kind !== 'renew');

    expect(stops).toEqual([
      { kind: 'soft_terminate', reason: 'key_expired', atMs: 40_000 },
      { kind: 'hard_terminate', reason: 'key_expired', atMs: 50_000 },
    ]);
  });

  test('is final: a reply that arrives after soft brings nothing back', () => {
    const keeper = keeperAt(0);
    run(keeper, 0, 39_900);

    const effects = keeper.renewed(1, deadlinesFromSending(39_900), 40_000);

    expect(effects).toEqual([{ kind: 'soft_terminate', reason: 'key_expired' }]);
    expect(keeper.deadlines.hardTerminateAtMs).toBe(50_000);
    expect(keeper.mayAct(40_000)).toBe(false);
  });
});

describe('first grant', () => {
  test('C25 the holder does not act on deadlines that it has not asked for: it renews at once', () => {
    const keeper = keeperAt(0, false);

    expect(keeper.mayAct(0)).toBe(false);
    expect(keeper.tick(0)).toEqual([{ kind: 'renew', requestId: 1 }]);
    keeper.renewed(1, deadlinesFromSending(0), 20);
    expect(keeper.mayAct(20)).toBe(true);
  });

  test('C24 the first answer replaces provisional deadlines, even by earlier ones', () => {
    const generous = deadlinesFromSending(2_000);
    const keeper = new LeaseKeeper({
      ladder,
      deadlines: generous,
      isConfirmed: false,
      nowMs: 0,
      random: () => 0,
    });
    keeper.tick(0);

    keeper.renewed(1, deadlinesFromSending(0), 20);

    expect(keeper.deadlines).toEqual(deadlinesFromSending(0));
  });

  test('C47 deadlines of another clock are not plausible: soft has passed, or hard is days ahead', () => {
    expect(isFirstGrantPlausible(deadlinesFromSending(0), ladder, 1_000)).toBe(true);
    expect(isFirstGrantPlausible(deadlinesFromSending(0), ladder, 40_000)).toBe(false);
    expect(isFirstGrantPlausible(deadlinesFromSending(864_000_000), ladder, 5_000)).toBe(false);
  });
});

describe('suspend', () => {
  test('C23 a holder suspended past all deadlines gets soft and hard at its first tick and never acts', () => {
    const keeper = keeperAt(0);
    run(keeper, 0, 10_000);

    expect(keeper.mayAct(3_600_000)).toBe(false);
    expect(keeper.tick(3_600_000).map((effect) => effect.kind)).toEqual([
      'soft_terminate',
      'hard_terminate',
    ]);
    expect(keeper.mayAct(3_600_000)).toBe(false);
  });

  test('C23 after a shorter gap the holder asks again before it acts', () => {
    const keeper = keeperAt(0);
    run(keeper, 0, 10_000);
    const awakeAtMs = 10_000 + GAP_MS + 1;

    expect(keeper.mayAct(awakeAtMs)).toBe(false);
    expect(keeper.tick(awakeAtMs)).toEqual([{ kind: 'renew', requestId: 1 }]);
    expect(keeper.mayAct(awakeAtMs)).toBe(false);
    keeper.renewed(1, deadlinesFromSending(awakeAtMs), awakeAtMs + 5);
    expect(keeper.mayAct(awakeAtMs + 5)).toBe(true);
  });

  test('C23 the answer to a request from before the gap does not count as having asked again', () => {
    const keeper = keeperAt(0);
    run(keeper, 0, 30_000);

    keeper.renewed(1, deadlinesFromSending(30_000), 35_000);

    expect(keeper.mayAct(35_000)).toBe(false);
    expect(keeper.tick(35_000)).toEqual([{ kind: 'renew', requestId: 2 }]);
    keeper.renewed(2, deadlinesFromSending(35_000), 35_010);
    expect(keeper.mayAct(35_010)).toBe(true);
  });
});
