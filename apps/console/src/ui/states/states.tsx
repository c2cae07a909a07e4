import type { UseQueryResult } from '@tanstack/react-query';
import { Stack, Text, Title, Button, Group } from '@mantine/core';
import type { ReactNode } from 'react';
import { IconAlertTriangle, IconRefresh } from '@tabler/icons-react';
import type { ApiError } from '~/lib/api/api-error.ts';
import { CopyableId } from '../text/text.tsx';
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

/** What could not be read, why, what to tell the people who look into it, and the way to try again. */
export function ErrorState({
  read,
  what,
}: {
  readonly read: Pick<UseQueryResult<unknown, ApiError>, 'error' | 'refetch'>;
  /** What could not be read: `the keys`. */
  readonly what: string;
}) {
  const { error } = read;
  if (error === null) return null;
  return (
    <Stack className={classes['state']} role="alert" data-tone="bad">
      <IconAlertTriangle size={22} aria-hidden className={classes['icon']} />
      <Title order={2} size="h5">
        {`Could not read ${what}`}
      </Title>
      <Text size="sm">{error.message}</Text>
      <Text size="xs" c="dimmed" component="div">
        <span className="mono">{error.code}</span>
        {error.incidentId === null ? null : (
          <Group gap={4} justify="center" mt={4}>
            incident <CopyableId id={error.incidentId} label="incident id" />
          </Group>
        )}
      </Text>
      <Button
        variant="default"
        leftSection={<IconRefresh size={14} />}
        onClick={() => void read.refetch()}
      >
        Try again
      </Button>
    </Stack>
  );
}

/** In place of a page that the person's role may not see: why not, and what they can do about it. */
export function NotAllowed({
  whyNot,
  children,
}: {
  readonly whyNot: string;
  readonly children: ReactNode;
}) {
  return (
    <EmptyState title={whyNot}>
      {children} An administrator can change your role on the Access page.
    </EmptyState>
  );
}
