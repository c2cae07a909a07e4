/**
 * Puts timers of the virtual time in the place of the runtime's while a world runs, so that product code
 * which sets timers by itself is simulated as it is. A timer belongs to the process that has set it.
 */
import { createHash } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import promises from 'node:timers/promises';
import type { World } from './world.ts';

type Callback = (...args: unknown[]) => void;

class VirtualTimer {
  isCleared = false;
  unref(): this {
    return this;
  }
}

const REAL = {
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setInterval: globalThis.setInterval,
  clearInterval: globalThis.clearInterval,
  setImmediate: globalThis.setImmediate,
  pause: promises.setTimeout,
};

/** The runtime's own digest is made outside of the virtual time. */
const DIGEST = { value: digestAtOnce, configurable: true };

/** @returns a function that puts the runtime's timers back. */
export function useVirtualTimers(world: World): () => void {
  const clear =
    (real: (timer: NodeJS.Timeout) => void) =>
    (timer: unknown): void => {
      if (timer instanceof VirtualTimer) timer.isCleared = true;
      else real(timer as NodeJS.Timeout);
    };
  const once = (fn: Callback, ms = 0, ...args: unknown[]): unknown => {
    const process = world.current;
    if (process === undefined) return REAL.setTimeout(fn, ms, ...args);
    const timer = new VirtualTimer();
    process.after(ms, () => {
      if (!timer.isCleared) fn(...args);
    });
    return timer;
  };
  const again = (fn: Callback, ms = 0, ...args: unknown[]): unknown => {
    const process = world.current;
    if (process === undefined) return REAL.setInterval(fn, ms, ...args);
    const timer = new VirtualTimer();
    const tick = (): void => {
      if (timer.isCleared) return;
      process.after(ms, tick);
      fn(...args);
    };
    process.after(ms, tick);
    return timer;
  };
  const immediate = (fn: Callback, ...args: unknown[]): unknown => {
    world.immediateCount += 1;
    return REAL.setImmediate(() => {
      world.immediateCount -= 1;
      fn(...args);
    });
  };
  const pause = (ms?: number): Promise<void> =>
    new Promise((resolve) => {
      once(resolve as Callback, ms);
    });
  Object.assign(globalThis, {
    setTimeout: once,
    clearTimeout: clear(REAL.clearTimeout),
    setInterval: again,
    clearInterval: clear(REAL.clearInterval),
    setImmediate: immediate,
  });
  replacePause(pause);
  Object.defineProperty(crypto.subtle, 'digest', DIGEST);
  return () => {
    Reflect.deleteProperty(crypto.subtle, 'digest');
    const { pause: realPause, ...globals } = REAL;
    Object.assign(globalThis, globals);
    replacePause(realPause);
  };
}

/** Imports of `node:timers/promises` see the change. */
function replacePause(pause: unknown): void {
  Object.assign(promises, { setTimeout: pause });
  syncBuiltinESMExports();
}

function digestAtOnce(_algorithm: string, data: Uint8Array): Promise<Uint8Array> {
  return Promise.resolve(new Uint8Array(createHash('sha256').update(data).digest()));
}
