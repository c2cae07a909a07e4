import type { StatsOverview } from '@leasehold/api/contract';
import { IconAlertTriangle, IconCircleCheck, IconHelpCircle } from '@tabler/icons-react';
import { Link } from '~/ui/link.tsx';
import { pause } from '~/lib/live/live-state.ts';
import { useStaleSince } from '~/lib/live/use-database-now.ts';
import { useSignal } from '~/lib/signal.ts';
import { concernsOf } from './concerns.ts';
import classes from './overview.module.css';

/** One line: healthy, or what is not. Data that is stale or paused never counts as healthy. */
export function Verdict({ stats }: { readonly stats: StatsOverview }) {
  const concerns = concernsOf(stats);
  const isBad = concerns.some(({ tone }) => tone === 'bad');
  const isPaused = useSignal(pause.isPausedByHand);
  const isStale = useStaleSince() !== null;
  if ((isStale || isPaused) && concerns.length === 0) {
    return (
      <div className={classes['verdict']} data-tone="warn" role="status">
        <IconHelpCircle size={20} aria-hidden />
        <strong>Not known</strong>
        <span>It was healthy when it was last read.</span>
      </div>
    );
  }
  const tone = concerns.length === 0 ? 'good' : isBad ? 'bad' : 'warn';
  const VerdictIcon = tone === 'good' ? IconCircleCheck : IconAlertTriangle;
  return (
    <div className={classes['verdict']} data-tone={tone} role="status">
      <VerdictIcon size={20} aria-hidden />
      <strong>{concerns.length === 0 ? 'Healthy' : 'Look at this'}</strong>
      {concerns.length === 0 ? (
        <span>
          {stats.drones.total === 0 ? 'There are no drones yet' : 'All drones are reporting'}, the
          reaper keeps up, no renewal was refused.
        </span>
      ) : (
        <ul className={classes['concerns']}>
          {concerns.map(({ text, href }) => (
            <li key={text}>
              <Link href={href}>{text}</Link>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
