import { onTestFinished, vi } from 'vitest';

/** Collects, until the test ends, what functions of `queueMicrotask` throw: it would be uncaught. */
export function catchUncaught(): unknown[] {
  const uncaught: unknown[] = [];
  const queue = globalThis.queueMicrotask;
  const queued = vi.spyOn(globalThis, 'queueMicrotask').mockImplementation((fn) => {
    queue(() => {
      try {
        fn();
      } catch (error) {
        uncaught.push(error);
      }
    });
  });
  onTestFinished(() => queued.mockRestore());
  return uncaught;
}
