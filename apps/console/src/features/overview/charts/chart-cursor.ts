import { createSignal } from '~/lib/signal.ts';

/** The beginning of the step that the cursor of all charts is at, epoch milliseconds; null for none. */
export const chartCursor = createSignal<number | null>(null);

/** Where a key moves the cursor; undefined for a key that does not move it. Pure. */
export function movedBy(
  key: string,
  atMs: number | null,
  steps: readonly number[],
): number | null | undefined {
  const last = steps.length - 1;
  const place = atMs === null ? -1 : steps.indexOf(atMs);
  // Without a cursor both arrows begin at the newest step.
  const from = (step: number): number => (place === -1 ? last : place + step);
  const places: Readonly<Record<string, number>> = {
    ArrowLeft: Math.max(0, from(-1)),
    ArrowRight: Math.min(last, from(1)),
    Home: 0,
    End: last,
  };
  if (key === 'Escape') return null;
  const next = places[key];
  return next === undefined ? undefined : (steps[next] ?? null);
}
