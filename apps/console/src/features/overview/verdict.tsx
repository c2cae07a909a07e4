import type { StatsOverview } from '@leasehold/api/contract';
import { IconAlertTriangle, IconCircleCheck, IconHelpCircle } from '@tabler/icons-react';
import { pause } from '~/lib/live/live-state.ts';
import { useStaleSince } from '~/lib/live/use-database-now.ts';
import { useSignal } from '~/lib/signal.ts';
import { concernText } from './concern-texts.ts';
import { RowsLink } from './rows-link.tsx';
import classes from './overview.module.css';
import { Since } from './since.tsx';

/**
 * One line: healthy, or what is not, each since when. It is about this moment, whatever time is shown below.
 * Data that is stale or paused never counts as healthy.
 */
export function Verdict({ stats }: { readonly stats: StatsOverview }) {
  const { concerns, since } = stats.health;
  const isPaused = useSignal(pause.isPausedByHand);
  const isStale = useStaleSince() !== null;
  if ((isStale || isPaused) && concerns.length === 0) {
    return (
      <div className={classes['verdict']} data-tone="warn" role="status">
        <IconHelpCircle size={20} aria-hidden />
        <strong>Not known</strong>
        <span>Healthy at the last reading.</span>
      </div>
    );
  }
  const isHealthy = concerns.length === 0;
  const isBad = concerns.some(({ tone }) => tone === 'bad');
  const VerdictIcon = isHealthy ? IconCircleCheck : IconAlertTriangle;
  return (
    <div
      className={classes['verdict']}
      data-tone={isHealthy ? 'good' : isBad ? 'bad' : 'warn'}
      role="status"
    >
      <VerdictIcon size={20} aria-hidden />
      <strong>
        {isHealthy ? 'Healthy' : 'Needs attention'}
        {isHealthy && since !== null ? (
          <>
            {' '}
            <Since at={since} asOf={stats.asOf} />
          </>
        ) : null}
      </strong>
      {isHealthy ? (
        <span>
          {stats.drones.total === 0 ? 'No drones yet.' : 'All drones reporting.'} Expiries are
          recorded in time, and holders renew.
        </span>
      ) : (
        <ul className={classes['concerns']}>
          {concerns.map((concern) => {
            const { text, href } = concernText(concern, stats);
            return (
              <li key={text}>
                {href === null ? text : <RowsLink href={href}>{text}</RowsLink>}
                {concern.since === null ? null : (
                  <>
                    {' '}
                    <Since at={concern.since} asOf={stats.asOf} />
                  </>
                )}
              </li>
            );
          })}
        </ul>
      )}
    </div>
  );
}
