import { useSyncExternalStore } from 'react';

/** A value that components read with `useSyncExternalStore`, and that anything may change. */
export interface Signal<Value> {
  get(): Value;
  set(value: Value): void;
  subscribe(listener: () => void): () => void;
}

export function createSignal<Value>(initial: Value): Signal<Value> {
  let value = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
  };
}

/** The signal's value, and a new rendering whenever it changes. */
export function useSignal<Value>(signal: Pick<Signal<Value>, 'get' | 'subscribe'>): Value {
  return useSyncExternalStore(signal.subscribe, signal.get, signal.get);
}
