import { Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import classes from './states.module.css';

/** Nothing is here, why, and what to do about it. */
export function EmptyState({
  title,
  children,
  action,
}: {
  readonly title: string;
  readonly children?: ReactNode;
  readonly action?: ReactNode;
}) {
  return (
    <Stack className={classes['state']}>
      <svg width="56" height="24" viewBox="0 0 56 24" aria-hidden className={classes['icon']}>
        <circle cx="10" cy="12" r="8" fill="none" stroke="currentColor" strokeDasharray="3 3" />
        <path d="M18 12h36M38 12v6M46 12v5M54 12v7" stroke="currentColor" strokeDasharray="3 3" />
      </svg>
      <Title order={2} size="h5">
        {title}
      </Title>
      <Text size="sm" c="dimmed" component="div" maw="31rem">
        {children}
      </Text>
      {action}
    </Stack>
  );
}
