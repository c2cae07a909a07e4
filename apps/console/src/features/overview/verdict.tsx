import type { ClockJumpView, HoldOffView, StatsOverview } from '@leasehold/api/contract';
import { HOLD_OFF_CAUSES } from '@leasehold/keys-core';
import { IconAlertTriangle, IconCircleCheck, IconHelpCircle } from '@tabler/icons-react';
import { useState } from 'react';
import { absolute, duration } from '~/lib/format.ts';
import { pause } from '~/lib/live/live-state.ts';
import { useDatabaseNow, useStaleSince } from '~/lib/live/use-database-now.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { lazyDialog } from '~/ui/lazy-dialog.tsx';
import { Notice } from '~/ui/states.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import { concernText } from './concern-texts.ts';
import { RowsLink } from './tiles.tsx';
import classes from './overview.module.css';

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

const EndHoldOffDialog = lazyDialog('holdOff', () =>
  import('./end-hold-off-dialog.tsx').then((module) => module.EndHoldOffDialog),
);

/** What is wrong with the database itself: what holds, since when, until when, and what can be done. */
export function Alarms({ stats }: { readonly stats: StatsOverview }) {
  const { holdOff, clockJump, datacenter } = stats;
  return (
    <>
      {holdOff == null ? null : <HoldOffAlarm holdOff={holdOff} datacenter={datacenter} />}
      {clockJump == null ? null : <ClockAlarm jump={clockJump} />}
    </>
  );
}

function HoldOffAlarm({
  holdOff,
  datacenter,
}: {
  readonly holdOff: HoldOffView;
  readonly datacenter: string;
}) {
  const whyNot = useWhyNot('operator');
  const [ending, setEnding] = useState<HoldOffView | null>(null);
  const { since, until, cause, remainingMs } = holdOff;
  const begun = since === null ? '' : ` since ${absolute(since)}`;
  const why = cause === null ? '' : `: ${HOLD_OFF_CAUSES[cause]}`;
  return (
    <>
      <Notice
        tone="bad"
        action={
          <GuardedButton
            size="compact-sm"
            color="red.8"
            whyNot={whyNot}
            onClick={() => setEnding(holdOff)}
          >
            End the hold-off
          </GuardedButton>
        }
      >
        <strong>New grants are held off</strong>
        {begun}, until {absolute(until)}: {duration(remainingMs)} more. The database was restored,
        or failed over{why}. Grants that it lost may still be in use. Renewals continue.
      </Notice>
      <EndHoldOffDialog holdOff={ending} datacenter={datacenter} onClose={() => setEnding(null)} />
    </>
  );
}

function ClockAlarm({ jump }: { readonly jump: ClockJumpView }) {
  const { at, jumpMs, remainingMs, unsureUntil } = jump;
  const direction = jumpMs > 0 ? 'forward' : 'back';
  return (
    <Notice tone={remainingMs > 0 ? 'bad' : 'warn'}>
      <strong>
        The database’s clock stepped {direction} by {duration(Math.abs(jumpMs))}
      </strong>{' '}
      at {absolute(at)}.{' '}
      {remainingMs > 0
        ? `Grants from before the step are not granted again until ${absolute(unsureUntil)} at worst, even if they have expired. ${duration(remainingMs)} left.`
        : 'Expired grants are granted again as usual.'}{' '}
      Find out what stepped the clock, and have it slewed instead.
    </Notice>
  );
}

const MINUTE_MS = 60_000;

/** `for 4 min`: it grows while it is shown, which nobody is told again and again. */
function Since({ at, asOf }: { readonly at: string; readonly asOf: string }) {
  const nowMs = useDatabaseNow() ?? Date.parse(asOf);
  const ms = nowMs - Date.parse(at);
  // From a minute on seconds tell nothing.
  const text = duration(ms < MINUTE_MS ? ms : Math.floor(ms / MINUTE_MS) * MINUTE_MS);
  return (
    <span className="dimmed" aria-live="off">
      for <time dateTime={at}>{ms < 1_000 ? '1 s' : text}</time>
    </span>
  );
}
