import { Text } from '@mantine/core';
import type { Consequences } from './revoke/revoke-consequences.ts';
import classes from './dialogs.module.css';

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
