import { untilCalled } from '../../kernel/until-called.ts';
import type { StatementKind } from '../observer.ts';
import type { KernelStore } from '../kernel-store.ts';

/** Runs a statement and tells the observer how long it took. */
export async function timed<T>(
  store: KernelStore,
  kind: StatementKind,
  run: () => Promise<T>,
): Promise<T> {
  const startedAtMs = store.clock.nowMs();
  try {
    return await run();
  } finally {
    store.observer.statement(kind, store.clock.nowMs() - startedAtMs);
  }
}

/** Waits by the store's own clock, or until the signal aborts. */
export function pause(
  { clock }: Pick<KernelStore, 'clock'>,
  ms: number,
  signal?: AbortSignal,
): Promise<void> {
  return untilCalled((finish) => clock.at(clock.nowMs() + ms, finish), signal);
}
