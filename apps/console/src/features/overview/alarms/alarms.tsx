import type { ClockJumpView, HoldOffView, StatsOverview } from '@leasehold/api/contract';
import { HOLD_OFF_CAUSES } from '@leasehold/keys-core';
import { useState } from 'react';
import { absolute, duration } from '~/lib/format.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { lazyDialog } from '~/ui/lazy-dialog.tsx';
import { Notice } from '~/ui/states.tsx';
import { GuardedButton } from '~/ui/tip.tsx';

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
