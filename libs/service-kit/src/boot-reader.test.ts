import { describe, expect, test } from 'vitest';
import { createBootReader } from './clock.ts';

const HOUR_MS = 3_600_000;

/** A machine whose clocks the test moves. */
function aMachine() {
  const truth = { bootMs: 50_004, monotonicMs: 40_000, wallMs: 1.8e12 };
  let filesRead = 0;
  const read = createBootReader({
    bootMs: () => {
      filesRead += 1;
      return Math.floor(truth.bootMs / 10) * 10;
    },
    monotonicMs: () => truth.monotonicMs,
    wallMs: () => truth.wallMs,
  });
  return {
    truth,
    read,
    filesRead: () => filesRead,
    pass(ms: number) {
      truth.bootMs += ms;
      truth.monotonicMs += ms;
      truth.wallMs += ms;
    },
    suspend(ms: number) {
      truth.bootMs += ms;
      truth.wallMs += ms;
    },
  };
}

describe('the time since boot', () => {
  test('is read from the file at one moment for all readings of a second', () => {
    const machine = aMachine();

    for (let place = 0; place < 1_000; place += 1) {
      machine.pass(1);
      machine.read();
      machine.read();
    }

    expect(machine.filesRead()).toBe(3);
  });

  test('goes on between two readings of the file', () => {
    const machine = aMachine();
    const beforeMs = machine.read();
    machine.pass(12.5);

    expect(machine.read() - beforeMs).toBe(12.5);
  });

  test('is never ahead of what the system says, and behind it by 10 ms at most', () => {
    const machine = aMachine();

    for (let place = 0; place < 1_000; place += 1) {
      machine.pass(7.3);
      expect(machine.read()).toBeLessThanOrEqual(machine.truth.bootMs);
      expect(machine.read()).toBeGreaterThan(machine.truth.bootMs - 10);
    }
  });

  test.each([
    ['an hour', HOUR_MS],
    ['20 ms', 20],
  ])('counts a suspend of %s in the very next reading, even in the same turn', (_text, ms) => {
    const machine = aMachine();
    machine.read();
    machine.suspend(ms);

    expect(machine.read()).toBeGreaterThan(machine.truth.bootMs - 10);
  });

  test.each([
    ['forward', HOUR_MS],
    ['back', -HOUR_MS],
  ])('is not moved by a wall clock that is set %s', (_text, ms) => {
    const machine = aMachine();
    const beforeMs = machine.read();
    machine.truth.wallMs += ms;

    expect(machine.read()).toBe(beforeMs);
  });

  test('counts a suspend within a second if the wall clock was set back by as much meanwhile', () => {
    const machine = aMachine();
    machine.read();
    machine.suspend(HOUR_MS);
    machine.truth.wallMs -= HOUR_MS;
    machine.pass(1_001);

    expect(machine.read()).toBeGreaterThan(machine.truth.bootMs - 10);
  });

  test('is that of this machine', () => {
    expect(createBootReader()()).toBeGreaterThan(0);
  });
});
