import { SegmentedControl, Text } from '@mantine/core';
import { IconCircleCheck, IconCircleDashed } from '@tabler/icons-react';
import { clockTime } from '~/lib/format.ts';
import type { Consequences, RevokeMode } from './revoke-consequences.ts';
import type { Stage } from './revoke-progress.ts';
import classes from './actions.module.css';

/** Who is concerned, what happens, and the worst case. */
export function ConsequenceList({
  consequences: { holder, context = [], steps, worstCase },
  isInOrder = false,
}: {
  readonly consequences: Pick<Consequences, 'holder' | 'context' | 'steps' | 'worstCase'>;
  /** Whether the steps happen one after the other. */
  readonly isInOrder?: boolean;
}) {
  const List = isInOrder ? 'ol' : 'ul';
  return (
    <div className={classes['consequences']}>
      <Text size="sm" fw={500}>
        {holder}
      </Text>
      {context.map((line) => (
        <Text key={line} size="sm">
          {line}
        </Text>
      ))}
      <List>
        {steps.map((step) => (
          <li key={step}>{step}</li>
        ))}
      </List>
      <p className={classes['worst']}>{worstCase}</p>
    </div>
  );
}

/** The choice between the two ways to end something: the same in every dialog. */
export function ModeChoice({
  mode,
  isOfMany = false,
  isGracefulOver = false,
  onChange,
}: {
  readonly mode: RevokeMode;
  readonly isOfMany?: boolean;
  /** It is being ended gracefully already. */
  readonly isGracefulOver?: boolean;
  readonly onChange: (mode: RevokeMode) => void;
}) {
  const it = isOfMany ? 'them' : 'it';
  return (
    <SegmentedControl
      aria-label="Mode"
      fullWidth
      data={[
        { value: 'graceful', label: `Graceful: let ${it} stop`, disabled: isGracefulOver },
        { value: 'force', label: `Force: end ${it} now` },
      ]}
      value={mode}
      onChange={(value) => onChange(value === 'force' ? 'force' : 'graceful')}
    />
  );
}

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
