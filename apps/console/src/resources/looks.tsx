import { type BackendStatus, type DroneStatus, type Phase, sayFailure } from '@leasehold/keys-core';
import type { KeyFailuresView, KeyView } from '@leasehold/keys-core/keys';
import {
  IconAlertTriangle,
  IconCircleCheck,
  IconCircleDashed,
  IconCircleX,
  IconClockPause,
  IconHourglass,
  IconLoader,
  IconPlayerPause,
  IconPlayerStop,
  IconPlugConnectedX,
} from '@tabler/icons-react';
import { duration } from '~/lib/format.ts';
import { useAtDatabaseNow, useStaleSince } from '~/lib/live/use-database-now.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { Link, LongName, type Look, LookBadge } from '~/ui/text.tsx';
import { failingText, failureLabel } from './backend-end.ts';
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

export const BACKEND_LOOKS: Record<BackendStatus, Look> = {
  scheduled: { label: 'Scheduled', tone: 'info', icon: IconLoader },
  loading: { label: 'Loading', tone: 'info', icon: IconLoader },
  starting: { label: 'Starting', tone: 'info', icon: IconLoader },
  waiting: { label: 'Waiting', tone: 'info', icon: IconHourglass },
  ready: { label: 'Ready', tone: 'good', icon: IconCircleCheck },
  terminating: { label: 'Terminating', tone: 'warn', icon: IconHourglass },
  hard_terminating: { label: 'Hard terminating', tone: 'bad', icon: IconAlertTriangle },
  terminated: { label: 'Terminated', tone: 'calm', icon: IconCircleX },
};

/** The look of one backend: what failed is red, and says how, while it is in the state of all that have ended. */
export function backendLook(backend: Parameters<typeof failureLabel>[0]): Look {
  return lookOf(backend.status, failureLabel(backend));
}

/** The look of a key's backend; undefined for a key that has none. */
export function keyBackendLook({
  backendStatus,
  backendEnd,
}: Pick<KeyView, 'backendStatus' | 'backendEnd'>): Look | undefined {
  if (backendStatus === null) return undefined;
  return lookOf(backendStatus, backendEnd?.hasFailed === true ? sayFailure(backendEnd) : undefined);
}

function lookOf(status: BackendStatus, failure: string | undefined): Look {
  return failure === undefined ? BACKEND_LOOKS[status] : failureLook(failure);
}

/** The look of a failed program. `label`: how it failed, `Crashed (17)`. */
export function failureLook(label: string): Look {
  return { label, tone: 'bad', icon: IconAlertTriangle };
}

/** The look of a key whose last backends have failed. */
export function failingLook(failing: KeyFailuresView, asOf: string): Look {
  return { label: failingText(failing, asOf), tone: 'bad', icon: IconAlertTriangle };
}

/**
 * The name of a person or a token, as the audit and events have it, with a link to everything that they
 * did. Without a link for those who may not read the audit, and for what no person did.
 */
export function PersonLink({ name }: { readonly name: string }) {
  const isAllowed = useWhyNot('operator') === undefined;
  if (!isAllowed || !isPerson(name)) return <LongName>{name}</LongName>;
  return (
    <Link href={doneBy(name)} title={`Everything by ${name}`}>
      <LongName>{name}</LongName>
    </Link>
  );
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
