import { ActionIcon } from '@mantine/core';
import { Tip } from '../tip.tsx';
import { IconPlayerPause, IconPlayerPlay } from '@tabler/icons-react';
import { databaseClock } from '~/lib/live/database-clock.ts';
import { duration } from '~/lib/format.ts';
import { missed, pause, stream } from '~/lib/live/live-state.ts';
import { useAtDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useSignal } from '~/lib/signal.ts';
import classes from './live-indicator.module.css';

const LOOKS = {
  open: { tone: 'good', label: 'Live', text: 'Changes appear as they happen.' },
  connecting: { tone: 'info', label: 'Connecting', text: 'Connecting to the event stream.' },
  lost: {
    tone: 'bad',
    label: 'Not live',
    text: 'The event stream is lost. The console keeps trying, and refreshes pages on a timer meanwhile.',
  },
  paused: { tone: 'warn', label: 'Paused', text: 'Nothing changes until you resume.' },
} as const;

/** By how much this machine's clock is wrong; null if that is not worth mentioning. */
function skewText(): string | null {
  const skewMs = databaseClock.skewMs();
  return skewMs === null ? null : duration(Math.abs(skewMs));
}

/** Whether changes arrive, for the whole console, and the button that pauses them. */
export function LiveIndicator() {
  const streamState = useSignal(stream);
  const isPaused = useSignal(pause.isPausedByHand);
  const missedCount = useSignal(missed);
  const skew = useAtDatabaseNow(skewText);
  const { tone, label, text } = LOOKS[isPaused ? 'paused' : streamState];
  return (
    <span className={classes['live']}>
      <Tip
        label={
          skew === null
            ? text
            : `${text} This machine's clock differs from the database's by ${skew}; times here are the database's.`
        }
      >
        <span className={classes['state']} data-tone={tone} role="status" tabIndex={0}>
          <span className={classes['dot']} aria-hidden />
          {label}
          {isPaused && missedCount > 0 ? ` · ${String(missedCount)}` : ''}
        </span>
      </Tip>
      <Tip label={isPaused ? 'Resume' : 'Pause changes and countdowns'}>
        <ActionIcon
          size="md"
          aria-label={isPaused ? 'Resume live changes' : 'Pause live changes'}
          onClick={() => pause.isPausedByHand.set(!isPaused)}
        >
          {isPaused ? <IconPlayerPlay size={16} /> : <IconPlayerPause size={16} />}
        </ActionIcon>
      </Tip>
    </span>
  );
}
