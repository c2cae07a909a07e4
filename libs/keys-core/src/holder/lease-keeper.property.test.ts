import { seed } from '@leasehold/testing/chance';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { KEY_LADDERS, deadlinesFrom } from '../kernel/ladder.ts';
import { GAP_MS, type KeeperEffect, LeaseKeeper, type Pulse } from './lease-keeper.ts';

const ladder = KEY_LADDERS.fast;
const TICK_MS = 100;

/** What happens to one renewal on its way there and back, in milliseconds of the database. */
const fateArbitrary = fc.record({
  requestDelayMs: fc.oneof(fc.integer({ min: 0, max: 400 }), fc.integer({ min: 0, max: 8_000 })),
  replyDelayMs: fc.oneof(fc.integer({ min: 0, max: 400 }), fc.integer({ min: 0, max: 8_000 })),
  isLost: fc.boolean(),
  copies: fc.integer({ min: 1, max: 2 }),
});

const historyArbitrary = fc.record({
  rate: fc.constantFrom<number>(0.9, 1, 1.1),
  offsetMs: fc.constantFrom(0, 3_600_000, 864_000_000),
  fates: fc.array(fateArbitrary, { minLength: 1, maxLength: 40 }),
  /** Pauses of the holder: the ticks before each, and how long it lasts. */
  gaps: fc.array(
    fc.record({
      afterTicks: fc.integer({ min: 1, max: 120 }),
      forMs: fc.integer({ min: 0, max: 20_000 }),
    }),
    { maxLength: 3 },
  ),
  endMs: fc.integer({ min: 5_000, max: 40_000 }),
});

type History = typeof historyArbitrary extends fc.Arbitrary<infer H> ? H : never;

interface Reply {
  atMs: number;
  requestId: number;
  localTimeMs: number;
  outcome: 'renewed' | 'expired';
  remainingMs: number;
}

interface Witness {
  /** The latest moment, in database time, at which the holder might act. */
  lastActedAtMs: number;
  expiresAtMs: number;
  stops: string[];
  actedAfterExpiry: boolean;
  tryCount: number;
  deadlinesWentBack: boolean;
}

/** Who ticks a keeper, and when. */
interface Owner {
  begin(nowMs: number): Pulse | undefined;
  /** At each reading, before anything else. */
  beat(keeper: LeaseKeeper, nowMs: number): void;
  tick(keeper: LeaseKeeper, nowMs: number): readonly KeeperEffect[];
}

const OF_ONE: Owner = {
  begin: () => undefined,
  beat: () => undefined,
  tick: (keeper, nowMs) => keeper.tick(nowMs),
};

/** Ticks a keeper only when it says that something is due. */
function ofMany(): Owner {
  const pulse = { atMs: 0 };
  return {
    begin(nowMs) {
      pulse.atMs = nowMs;
      return pulse;
    },
    beat(keeper, nowMs) {
      if (nowMs - pulse.atMs > GAP_MS) keeper.slept();
      pulse.atMs = nowMs;
    },
    tick: (keeper, nowMs) => (keeper.dueAtMs <= nowMs ? keeper.tick(nowMs) : []),
  };
}

/** Plays a history: a database with its own clock, a holder with another, and a bad network. */
function play(history: History, owner: Owner): Witness {
  const localOf = (dbMs: number): number => history.offsetMs + dbMs * history.rate;
  const requests: {
    atMs: number;
    requestId: number;
    localTimeMs: number;
    fate: (typeof history.fates)[number];
  }[] = [];
  const replies: Reply[] = [];
  const witness: Witness = {
    lastActedAtMs: 0,
    expiresAtMs: ladder.ttlMs,
    stops: [],
    actedAfterExpiry: false,
    tryCount: 0,
    deadlinesWentBack: false,
  };
  const keeper = new LeaseKeeper({
    pulse: owner.begin(localOf(0)),
    ladder,
    deadlines: deadlinesFrom(ladder, localOf(0), ladder.ttlMs),
    isConfirmed: true,
    nowMs: localOf(0),
    random: () => 0.5,
  });
  let isOver = false;

  const carryOut = (effects: ReturnType<LeaseKeeper['tick']>, dbMs: number): void => {
    for (const effect of effects) {
      if (effect.kind !== 'renew') {
        witness.stops.push(effect.kind);
        continue;
      }
      const fate = history.fates[witness.tryCount % history.fates.length];
      witness.tryCount += 1;
      if (fate === undefined || fate.isLost) continue;
      requests.push({
        atMs: dbMs + fate.requestDelayMs,
        requestId: effect.requestId,
        localTimeMs: localOf(dbMs),
        fate,
      });
    }
  };

  const serve = (untilMs: number): void => {
    requests.sort((a, b) => a.atMs - b.atMs);
    while (requests[0] !== undefined && requests[0].atMs <= untilMs) {
      const request = requests.shift();
      if (request === undefined) break;
      isOver ||= request.atMs >= witness.expiresAtMs;
      if (!isOver) witness.expiresAtMs = request.atMs + ladder.ttlMs;
      for (let copy = 0; copy < request.fate.copies; copy += 1) {
        replies.push({
          atMs: request.atMs + request.fate.replyDelayMs * (copy + 1),
          requestId: request.requestId,
          localTimeMs: request.localTimeMs,
          outcome: isOver ? 'expired' : 'renewed',
          remainingMs: ladder.ttlMs,
        });
      }
    }
  };

  const gapAt = new Map(history.gaps.map((gap) => [gap.afterTicks, gap.forMs]));
  let dbMs = 0;
  for (let ticks = 0; dbMs <= history.endMs; ticks += 1) {
    dbMs += TICK_MS + (gapAt.get(ticks) ?? 0);
    serve(dbMs);
    const nowMs = localOf(dbMs);
    owner.beat(keeper, nowMs);
    const before = keeper.deadlines.hardTerminateAtMs;
    replies.sort((a, b) => a.atMs - b.atMs);
    while (replies[0] !== undefined && replies[0].atMs <= dbMs) {
      const reply = replies.shift();
      if (reply === undefined) break;
      const deadlines = deadlinesFrom(ladder, reply.localTimeMs, reply.remainingMs);
      carryOut(
        reply.outcome === 'renewed'
          ? keeper.renewed(reply.requestId, deadlines, nowMs)
          : keeper.refused(reply.requestId, 'expired', nowMs),
        dbMs,
      );
    }
    carryOut(owner.tick(keeper, nowMs), dbMs);
    witness.deadlinesWentBack ||= !keeper.isStopping && keeper.deadlines.hardTerminateAtMs < before;
    // A process counts as acting until it is killed, even when it may not act: the stricter measure.
    if (!witness.stops.includes('hard_terminate')) {
      witness.lastActedAtMs = dbMs;
      witness.actedAfterExpiry ||= keeper.mayAct(nowMs) && dbMs >= witness.expiresAtMs;
    }
  }
  return witness;
}

describe('F6 F10 lease keeper, with clocks 10 % apart, and replies lost, late, repeated and out of order', () => {
  test('C24 C23 I8 never acts once the grant can be given away', () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        expect(play(history, OF_ONE).actedAfterExpiry).toBe(false);
      }),
      { seed: seed(), numRuns: 500 },
    );
  });

  test('C24 kills the process before the grant can be given away, if there was no gap', () => {
    const steady = historyArbitrary.map((history) => ({ ...history, gaps: [] }));
    fc.assert(
      fc.property(steady, (history) => {
        const witness = play(history, OF_ONE);
        expect(witness.lastActedAtMs).toBeLessThan(witness.expiresAtMs);
      }),
      { seed: seed(), numRuns: 500 },
    );
  });

  test('C22 reports soft before hard, and each at most once', () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        const { stops } = play(history, OF_ONE);
        expect([[], ['soft_terminate'], ['soft_terminate', 'hard_terminate']]).toContainEqual(
          stops,
        );
      }),
      { seed: seed(), numRuns: 500 },
    );
  });

  test('does the same when it is ticked only when something is due', () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        expect(play(history, ofMany())).toEqual(play(history, OF_ONE));
      }),
      { seed: seed(), numRuns: 500 },
    );
  });

  test('I8 no reply moves a deadline back', () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        expect(play(history, OF_ONE).deadlinesWentBack).toBe(false);
      }),
      { seed: seed(), numRuns: 500 },
    );
  });
});
