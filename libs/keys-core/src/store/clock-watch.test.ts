import { describe, expect, test, vi } from 'vitest';
import { createClockWatch } from './clock-watch.ts';

describe('clock watch', () => {
  test('F7b after the database clock steps forward nothing is taken over for one ladder', () => {
    const onJump = vi.fn();
    const watch = createClockWatch({ quietMs: 6_000, onJump });

    watch.observe(1_000_000, 100, 110);
    watch.observe(1_090_100, 200, 210);

    expect(onJump).toHaveBeenCalledWith(expect.closeTo(89_990, -2));
    expect(watch.belief(6_209).mayTakeOver).toBe(false);
    expect(watch.belief(6_210).mayTakeOver).toBe(true);
  });

  test('F7 a step back is noticed too', () => {
    const onJump = vi.fn();
    const watch = createClockWatch({ quietMs: 6_000, onJump });

    watch.observe(1_000_000, 100, 110);
    watch.observe(999_000, 200, 210);

    expect(onJump).toHaveBeenCalledOnce();
    expect(watch.belief(300).mayTakeOver).toBe(false);
  });

  test('a slow answer is no jump: the clock was read somewhere between sending and receiving', () => {
    const onJump = vi.fn();
    const watch = createClockWatch({ quietMs: 6_000, onJump });

    watch.observe(1_000_000, 100, 110);
    watch.observe(1_004_000, 200, 9_000);
    watch.observe(1_009_000, 9_050, 9_120);

    expect(onJump).not.toHaveBeenCalled();
    expect(watch.belief(9_200).mayTakeOver).toBe(true);
  });

  test('a clock that is slewed is followed', () => {
    const onJump = vi.fn();
    const watch = createClockWatch({ quietMs: 6_000, onJump });

    for (let ms = 0; ms < 1_000_000; ms += 1_000) watch.observe(5_000_000 + ms * 1.05, ms, ms + 5);

    expect(onJump).not.toHaveBeenCalled();
  });

  test('F7b the first statement after a jump is told what the clock cannot have reached', () => {
    const watch = createClockWatch({ quietMs: 6_000, onJump: () => undefined });

    expect(watch.belief(50).believeUntil).toBeUndefined();
    watch.observe(1_000_000, 100, 110);

    const until = watch.belief(10_100).believeUntil ?? 0;
    expect(until).toBeGreaterThan(1_010_000);
    expect(until).toBeLessThan(1_010_000 + 10_000);
  });
});
