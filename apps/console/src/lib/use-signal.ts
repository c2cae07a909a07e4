'use client';

import { useSyncExternalStore } from 'react';
import type { Signal } from './signal.ts';

/** The signal's value, and a new rendering whenever it changes. */
export function useSignal<Value>(signal: Pick<Signal<Value>, 'get' | 'subscribe'>): Value {
  return useSyncExternalStore(signal.subscribe, signal.get, signal.get);
}
