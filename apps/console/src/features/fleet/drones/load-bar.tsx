import { count } from '~/lib/format.ts';
import classes from './load-bar.module.css';

/** From this share on a drone is nearly full. */
const HIGH = 0.85;

/** How many backends a drone has, of those that it can have. */
export function LoadBar({
  backendCount,
  capacity,
}: {
  readonly backendCount: number;
  readonly capacity: number;
}) {
  const share = capacity === 0 ? 1 : Math.min(1, backendCount / capacity);
  return (
    <span className={classes['load']}>
      <span className={classes['bar']} data-load aria-hidden>
        <span
          className={classes['used']}
          data-high={share >= HIGH || undefined}
          style={{ transform: `scaleX(${String(share)})` }}
        />
      </span>
      <span>
        {count(backendCount)} <span className="dimmed">of {count(capacity)}</span>
      </span>
    </span>
  );
}
