import { describe, expect, test, vi } from 'vitest';
import { createClockWatch } from './clock-watch.ts';

describe('clock watch', () => {
  test('F7b after the database clock steps forward nothing is taken over for one ladder', () => {
    const onJump = vi.fn();
    const watch = createClockWatch({ quietMs: 6_000, onJump });

    watch.observe(1_000_000, 100, 110);
    watch.observe(1_090_100, 200, 210);

    expect(onJump).toHaveBeenCalledWith(expect.closeTo(89_990, -2));
    expect(watch.mayTakeOver(6_209)).toBe(false);
    expect(watch.mayTakeOver(6_210)).toBe(true);
  });

  test('F7 a step back is noticed too', () => {
    const onJump = vi.fn();
    const watch = createClockWatch({ quietMs: 6_000, onJump });

    watch.observe(1_000_000, 100, 110);
    watch.observe(999_000, 200, 210);

    expect(onJump).toHaveBeenCalledOnce();
    expect(watch.mayTakeOver(300)).toBe(false);
  });

  test('a slow answer is no jump: the clock was read somewhere between sending and receiving', () => {
    const onJump = vi.fn();
    const watch = createClockWatch({ quietMs: 6_000, onJump });

    watch.observe(1_000_000, 100, 110);
    watch.observe(1_004_000, 200, 9_000);
    watch.observe(1_009_000, 9_050, 9_120);

    expect(onJump).not.toHaveBeenCalled();
    expect(watch.mayTakeOver(9_200)).toBe(true);
  });

  test('a clock that is slewed is followed', () => {
    const onJump = vi.fn();
    const watch = createClockWatch({ quietMs: 6_000, onJump });

    for (let ms = 0; ms < 1_000_000; ms += 1_000) watch.observe(5_000_000 + ms * 1.05, ms, ms + 5);

    expect(onJump).not.toHaveBeenCalled();
  });
});
