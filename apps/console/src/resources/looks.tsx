import {
  IconCircleCheck,
  IconCircleDashed,
  IconCircleX,
  IconClockPause,
  IconHourglass,
  IconPlayerPause,
  IconPlayerStop,
  IconPlugConnectedX,
} from '@tabler/icons-react';
import type { DroneStatus, Phase } from '@leasehold/keys-core';
import { duration } from '~/lib/format.ts';
import { useAtDatabaseNow, useStaleSince } from '~/lib/live/use-database-now.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { Link, LongName, type Look, LookBadge } from '~/ui/text.tsx';
import type { GrantView } from './grant-view.ts';
import { doneBy, isPerson } from './names.ts';
import classes from './looks.module.css';

/** One look for each phase, everywhere. */
export const PHASE_LOOKS: Record<Phase, Look> = {
  held: { label: 'Held', tone: 'good', icon: IconCircleCheck },
  expiring: { label: 'Expiring', tone: 'warn', icon: IconHourglass },
  expired: { label: 'Expired', tone: 'bad', icon: IconClockPause },
  free: { label: 'Free', tone: 'calm', icon: IconCircleDashed },
};

export const DRONE_LOOKS: Record<DroneStatus, Look> = {
  ready: { label: 'Ready', tone: 'good', icon: IconCircleCheck },
  draining: { label: 'Draining', tone: 'warn', icon: IconPlayerPause },
  stopped: { label: 'Stopped', tone: 'calm', icon: IconPlayerStop },
  unreachable: { label: 'Unreachable', tone: 'bad', icon: IconPlugConnectedX },
  // An operator has decided it: less than a drone that nobody knows about.
  lost: { label: 'Lost', tone: 'warn', icon: IconCircleX },
};

export function PhaseBadge({ phase }: { readonly phase: Phase }) {
  return <LookBadge look={PHASE_LOOKS[phase]} />;
}

/** The bar is some fifty pixels long. */
const SHARE_DIGITS = 2;

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
  const endMs = Date.parse(expiresAt);
  const wholeMs = Math.max(1, endMs - Date.parse(renewedAt));
  const remainingAt = (nowMs: number | null): number => {
    const remainingMs = endMs - (nowMs ?? Date.parse(asOf));
    // The database has found it expired: what is known of its time here is a moment behind.
    return phase === 'expired' ? Math.min(0, remainingMs) : remainingMs;
  };
  const text = useAtDatabaseNow((nowMs) => remainingText(remainingAt(nowMs)));
  const isOver = useAtDatabaseNow((nowMs) => remainingAt(nowMs) <= 0);
  const share = useAtDatabaseNow((nowMs) =>
    Math.min(1, Math.max(0, remainingAt(nowMs) / wholeMs)).toFixed(SHARE_DIGITS),
  );
  const isStale = useStaleSince() !== null;
  if (phase === 'free') return <span className="dimmed">–</span>;
  return (
    <span className={classes['remaining']} data-stale={isStale || undefined}>
      {isOver ? null : (
        <span className={classes['bar']} aria-hidden>
          <span
            className={classes['rest']}
            data-phase={phase}
            style={{ transform: `scaleX(${share})` }}
          />
        </span>
      )}
      <span>{text}</span>
    </span>
  );
}

/** `42 s left`, `expired 2 s ago`. */
function remainingText(remainingMs: number): string {
  return remainingMs > 0
    ? `${duration(remainingMs)} left`
    : `expired ${duration(-remainingMs)} ago`;
}

/**
 * The name of a person or a token, as the audit and events have it, with a link to everything that they
 * did. Without a link for those who may not read the audit, and for what no person did.
 */
export function PersonLink({ name }: { readonly name: string }) {
  const isAllowed = useWhyNot('operator', { isOfAll: true }) === undefined;
  if (!isAllowed || !isPerson(name)) return <LongName>{name}</LongName>;
  return (
    <Link href={doneBy(name)} title={`Everything by ${name}`}>
      <LongName>{name}</LongName>
    </Link>
  );
}
