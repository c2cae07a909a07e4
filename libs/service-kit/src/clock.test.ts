import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createBootClock, TICK_MS } from './clock.ts';

let readingMs: number;

beforeEach(() => {
  readingMs = 1_000;
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('the boot clock', () => {
  test('calls once, within one tick of the moment', () => {
    const clock = createBootClock(() => readingMs);
    const fn = vi.fn();
    clock.at(1_100, fn);

    vi.advanceTimersByTime(TICK_MS);
    expect(fn).not.toHaveBeenCalled();
    readingMs = 1_100;
    vi.advanceTimersByTime(TICK_MS * 5);

    expect(fn).toHaveBeenCalledTimes(1);
  });

  test('calls at its first tick for a moment that passed while the machine slept', () => {
    const clock = createBootClock(() => readingMs);
    const fn = vi.fn();
    clock.at(1_000_000, fn);

    readingMs = 5_000_000;
    vi.advanceTimersByTime(TICK_MS);

    expect(fn).toHaveBeenCalledTimes(1);
  });

  test('never goes back, also when its reading does', () => {
    const clock = createBootClock(() => readingMs);
    clock.nowMs();
    readingMs = 400;

    expect(clock.nowMs()).toBe(1_000);
  });

  test('has one timer for any number of callbacks, and none a tick after the last of them', () => {
    const clock = createBootClock(() => readingMs);

    const cancels = [clock.at(2_000, vi.fn()), clock.at(3_000, vi.fn()), clock.onTick(vi.fn())];
    expect(vi.getTimerCount()).toBe(1);
    for (const cancel of cancels) cancel();
    vi.advanceTimersByTime(TICK_MS);

    expect(vi.getTimerCount()).toBe(0);
  });

  test('keeps a process alive while it has callbacks, and no longer', () => {
    vi.useRealTimers();
    const clock = createBootClock();
    const timersCount = (): number =>
      process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = timersCount();

    const first = clock.at(clock.nowMs() + 60_000, vi.fn());
    expect(timersCount()).toBe(before + 1);
    first();
    expect(timersCount()).toBe(before);
    const second = clock.onTick(vi.fn());
    expect(timersCount()).toBe(before + 1);
    second();

    expect(timersCount()).toBe(before);
  });

  test('does not call a callback that was cancelled in the same tick', () => {
    const clock = createBootClock(() => readingMs);
    const second = vi.fn();
    clock.at(1_000, () => {
      cancelSecond();
    });
    const cancelSecond = clock.at(1_000, second);

    vi.advanceTimersByTime(TICK_MS * 3);

    expect(second).not.toHaveBeenCalled();
  });

  test('reads the real clock of the machine', () => {
    expect(createBootClock().nowMs()).toBeGreaterThan(0);
  });
});
