import { duration } from '~/lib/format.ts';
import { useStaleSince, useDatabaseNow } from '~/lib/live/use-database-now.ts';
import type { GrantView } from './grant-view.ts';
import classes from './remaining.module.css';

/**
 * How long a grant lasts unless it is renewed: a bar of its whole length and a text. Counted in the
 * database's time; once over it reads so, and never goes below zero. If stale, it stands still and is pale.
 */
export function Remaining({
  phase,
  renewedAt,
  expiresAt,
  asOf,
}: Pick<GrantView, 'phase' | 'renewedAt' | 'expiresAt' | 'asOf'>) {
  const nowMs = useDatabaseNow() ?? Date.parse(asOf);
  const isStale = useStaleSince() !== null;
  if (phase === 'free') return <span className="dimmed">–</span>;
  const remainingMs = Date.parse(expiresAt) - nowMs;
  const wholeMs = Math.max(1, Date.parse(expiresAt) - Date.parse(renewedAt));
  const share = Math.min(1, Math.max(0, remainingMs / wholeMs));
  return (
    <span className={classes['remaining']} data-stale={isStale || undefined}>
      <span className={classes['bar']} aria-hidden>
        <span
          className={classes['rest']}
          data-phase={remainingMs <= 0 ? 'expired' : phase}
          style={{ transform: `scaleX(${String(share)})` }}
        />
      </span>
      <span>{remainingText(remainingMs)}</span>
    </span>
  );
}

/** `42 s left`, `expired 2 s ago`. */
function remainingText(remainingMs: number): string {
  return remainingMs > 0
    ? `${duration(remainingMs)} left`
    : `expired ${duration(-remainingMs)} ago`;
}
