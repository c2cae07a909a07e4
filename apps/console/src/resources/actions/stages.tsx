import { IconCircleCheck, IconCircleDashed } from '@tabler/icons-react';
import { clockTime } from '~/lib/format.ts';
import type { Stage } from './revoke/revoke-progress.ts';
import classes from './banner.module.css';

/** How far an act is that a banner follows: what is done, and when if known, and what is not done yet. */
export function Stages({ stages }: { readonly stages: readonly Stage[] }) {
  return (
    <ol className={classes['stages']}>
      {stages.map(({ label, isDone, at }) => (
        <li key={label} data-done={isDone || undefined}>
          {isDone ? (
            <IconCircleCheck size={14} aria-label="done" />
          ) : (
            <IconCircleDashed size={14} aria-label="not yet" />
          )}
          {label}
          {isDone && at !== null ? <span className="mono">{clockTime(at)}</span> : null}
        </li>
      ))}
    </ol>
  );
}
