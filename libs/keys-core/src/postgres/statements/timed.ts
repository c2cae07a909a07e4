import { activeTracer, isWithinSpan, SpanKind, traced } from '@leasehold/service-kit/tracing';
import { untilCalled } from '../../kernel/clock.ts';
import type { StatementKind } from '../observer.ts';
import type { KernelStore } from '../kernel-store.ts';

/**
 * Runs a statement and tells the observer how long it took. In a trace it has a span: with the name of its
 * kind, and without its text and parameters.
 */
export async function timed<T>(
  store: KernelStore,
  kind: StatementKind,
  run: () => Promise<T>,
): Promise<T> {
  const startedAtMs = store.clock.nowMs();
  const tracer = activeTracer();
  try {
    if (tracer === undefined || !isWithinSpan()) return await run();
    const attributes = { 'db.system.name': 'postgresql', 'db.operation.name': kind };
    return await traced(tracer, { name: kind, kind: SpanKind.CLIENT, attributes }, run);
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
