import { IconAlertTriangle, IconInfoCircle, IconCircleCheck } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import type { Tone } from '../text/badge.tsx';
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
