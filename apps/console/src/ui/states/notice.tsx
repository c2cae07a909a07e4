import { IconAlertTriangle, IconInfoCircle, IconCircleCheck } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { Foot } from './foot.tsx';
import type { Tone } from '../text/text.tsx';
import { absolute } from '~/lib/format.ts';
import classes from './states.module.css';

const ICONS = {
  good: IconCircleCheck,
  warn: IconAlertTriangle,
  bad: IconAlertTriangle,
  info: IconInfoCircle,
  calm: IconInfoCircle,
} as const;

/** One line that must not be missed. Screen readers announce it when it appears. */
export function Notice({
  tone,
  children,
  action,
}: {
  readonly tone: Tone;
  readonly children: ReactNode;
  readonly action?: ReactNode;
}) {
  const ToneIcon = ICONS[tone];
  return (
    <div className={classes['notice']} data-tone={tone} role={tone === 'bad' ? 'alert' : 'status'}>
      <ToneIcon size={15} aria-hidden />
      <span>{children}</span>
      {action}
    </div>
  );
}

export interface UnreachableDatacenter {
  readonly datacenter: string;
  /** Null: it has not been reached since this controller started. */
  readonly since: string | null;
  readonly code: string | null;
}

/** Names the datacenters whose part of a list is missing, above the rest of the list. */
export function UnreachableNotice({
  unreachable,
}: {
  readonly unreachable: readonly UnreachableDatacenter[] | undefined;
}) {
  if (unreachable === undefined || unreachable.length === 0) return null;
  return (
    <Foot>
      <Notice tone="warn">
        {unreachable.map(unreachableText).join('; ')}. What is there is not shown, and continues to
        work.
      </Notice>
    </Foot>
  );
}

/** `dc2 cannot be reached since …`, or that it refuses this datacenter's credentials. */
function unreachableText({ datacenter, since, code }: UnreachableDatacenter): string {
  const what =
    code === 'peer.refused' ? 'refuses this datacenter’s credentials' : 'cannot be reached';
  return since === null
    ? `${datacenter} ${what}`
    : `${datacenter} ${what} since ${absolute(since)}`;
}
