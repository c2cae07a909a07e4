import { describe, expect, test, vi } from 'vitest';
import { createClockWatch, type ClockWatch, type DoubtedRow } from './clock-watch.ts';

/** The database's clock when the local one shows 0. */
const AHEAD_MS = 1_000_000;

function aWatch(remembered?: ClockWatch['memory']) {
  const onJump = vi.fn<(jumpMs: number) => void>();
  return { watch: createClockWatch({ onJump, remembered }), onJump };
}

/** An exact reading at a local moment, of a clock that is ahead by `AHEAD_MS` and `byMs`. */
function read(watch: ClockWatch, localMs: number, byMs = 0, tookMs = 2): void {
  watch.observe(AHEAD_MS + byMs + localMs, localMs - tookMs / 2, localMs + tookMs / 2);
}

/** How far the database's clock may be ahead of its expected reading and still be believed. */
function slackMs(watch: ClockWatch, localMs: number): number {
  return watch.belief(localMs).until - (AHEAD_MS + localMs);
}

function row(change: Partial<DoubtedRow>): DoubtedRow {
  return {
    endReason: null,
    renewedAt: 0,
    ttlMs: 60_000,
    expiresAt: AHEAD_MS + 10_000,
    stopsBy: null,
    asOf: AHEAD_MS,
    ...change,
  };
}

describe('clock watch', () => {
  test('nothing is believed before the first reading', () => {
    expect(aWatch().watch.belief(0).until).toBe(0);
  });

  test.each([-90_000, -300, 300, 1_000, 5_000, 90_000])(
    'F7 F7b a step of %i ms is a jump, and the watch begins again',
    (stepMs) => {
      const { watch, onJump } = aWatch();

      read(watch, 1_000);
      read(watch, 1_100, stepMs);

      expect(onJump).toHaveBeenCalledWith(expect.closeTo(stepMs, -1.5));
      expect(watch.belief(1_100).watchedSince).toBe(AHEAD_MS + stepMs + 1_100);
    },
  );

  test('H-first-statement after a clock step of more than a quarter of a second a statement believes no expiry', () => {
    const { watch } = aWatch();

    read(watch, 1_000);

    expect(slackMs(watch, 1_100)).toBeLessThan(260);
    expect(slackMs(watch, 1_100)).toBeGreaterThan(240);
  });

  test('a slow answer is not a jump, and does not widen the known bounds', () => {
    const { watch, onJump } = aWatch();

    read(watch, 1_000);
    read(watch, 6_000, 0, 8_000);
    read(watch, 12_000);

    expect(onJump).not.toHaveBeenCalled();
    expect(slackMs(watch, 6_000)).toBeLessThan(260);
  });

  test('an answer to a statement that was sent before a jump is not a second jump', () => {
    const { watch, onJump } = aWatch();

    read(watch, 1_000);
    read(watch, 2_000, 90_000);
    watch.observe(AHEAD_MS + 1_500, 1_490, 3_000);

    expect(onJump).toHaveBeenCalledOnce();
    expect(watch.belief(3_000).until).toBeGreaterThan(AHEAD_MS + 93_000);
  });

  test.each([0.083, -0.083, 0.15, -0.15])('a clock that is slewed by %d is followed', (rate) => {
    const { watch, onJump } = aWatch();

    for (let ms = 1_000; ms < 1_000_000; ms += 1_000) read(watch, ms, ms * rate);

    expect(onJump).not.toHaveBeenCalled();
    expect(watch.belief(0).watchedSince).toBeCloseTo(AHEAD_MS + 1_000 + 1_000 * rate);
  });

  test.each([300, -300, 390])(
    'a step of %d ms is a jump, however long it was not read',
    (stepMs) => {
      const { watch, onJump } = aWatch();

      read(watch, 1_000);
      read(watch, 11_000, stepMs);

      expect(onJump).toHaveBeenCalledOnce();
    },
  );

  test('many small steps in a row are a jump', () => {
    const { watch, onJump } = aWatch();

    for (let ms = 1_000; ms < 10_000; ms += 100) read(watch, ms, Math.floor(ms / 1_000) * 240);

    expect(onJump).toHaveBeenCalled();
  });

  test('after more than ten minutes without a reading the watch begins again, without a jump', () => {
    const { watch, onJump } = aWatch();

    read(watch, 1_000);
    read(watch, 602_000);

    expect(onJump).not.toHaveBeenCalled();
    expect(watch.belief(602_000).watchedSince).toBe(AHEAD_MS + 602_000);
  });

  test('a watch continues after a restart of its process, if the machine was not rebooted', () => {
    const { watch } = aWatch();
    read(watch, 1_000);
    const { watch: next, onJump } = aWatch(watch.memory);

    read(next, 9_000);

    expect(onJump).not.toHaveBeenCalled();
    expect(next.belief(9_000).watchedSince).toBe(AHEAD_MS + 1_000);
  });

  test('a clock step while the process was down is noticed after its restart', () => {
    const { watch } = aWatch();
    read(watch, 1_000);
    const { watch: next, onJump } = aWatch(watch.memory);

    read(next, 9_000, 90_000);

    expect(onJump).toHaveBeenCalledOnce();
    expect(next.belief(9_000).watchedSince).toBe(AHEAD_MS + 99_000);
  });

  test('the memory of a local clock that has started over is ignored', () => {
    const { watch } = aWatch();
    read(watch, 500_000);
    const { watch: next, onJump } = aWatch(watch.memory);

    read(next, 1_000, 499_000);

    expect(onJump).not.toHaveBeenCalled();
    expect(next.belief(1_000).watchedSince).toBe(AHEAD_MS + 500_000);
  });
});

describe('the expiry of a grant', () => {
  const EXPIRED = { asOf: AHEAD_MS + 100_000 };

  test('is believed when the clock was watched since the grant was renewed', () => {
    const { watch } = aWatch();
    read(watch, 10_000);

    expect(watch.doubtMs(row({ ...EXPIRED, renewedAt: AHEAD_MS + 10_000 }))).toBe(0);
    expect(watch.doubtMs(row({ ...EXPIRED, asOf: AHEAD_MS + 20_000, renewedAt: AHEAD_MS }))).toBe(
      50_000,
    );
  });

  test('is believed when the clock was watched for as long as the grant’s own TTL', () => {
    const { watch } = aWatch();
    read(watch, 50_000);

    expect(watch.doubtMs(row({ ...EXPIRED, ttlMs: 50_000 }))).toBe(0);
    expect(watch.doubtMs(row({ ...EXPIRED, ttlMs: 3_600_000 }))).toBe(3_550_000);
  });

  test('is believed when another process watched the clock until then', () => {
    const { watch } = aWatch();
    read(watch, 99_000);
    watch.settle(AHEAD_MS + 50_000);

    expect(watch.doubtMs(row({ ...EXPIRED, expiresAt: AHEAD_MS + 50_000 }))).toBe(0);
    expect(watch.doubtMs(row({ ...EXPIRED, expiresAt: AHEAD_MS + 50_001 }))).toBe(59_000);
  });

  test('is no longer settled when the clock goes back behind it', () => {
    const { watch } = aWatch();
    read(watch, 99_000);
    watch.settle(AHEAD_MS + 99_000);
    read(watch, 99_100, -50_000);

    expect(watch.belief(99_100).settledUntil).toBe(AHEAD_MS + 49_100);
  });

  test('does not matter when the grant was ended explicitly', () => {
    const { watch } = aWatch();
    read(watch, 99_000);

    expect(watch.doubtMs(row({ ...EXPIRED, endReason: 'released' }))).toBe(0);
    const heldBack = { endReason: 'revoked', stopsBy: AHEAD_MS + 99_500 } as const;
    expect(watch.doubtMs(row({ ...EXPIRED, ...heldBack }))).toBe(59_000);
  });
});
