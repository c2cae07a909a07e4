import { Button, Group, Stack, Text, Title } from '@mantine/core';
import { IconAlertTriangle, IconRefresh } from '@tabler/icons-react';
import type { ApiError } from '~/lib/api/api-error.ts';
import { CopyableId } from '../text/copyable-id.tsx';
import classes from './states.module.css';

/** What could not be read, why, what to tell the people who look into it, and the way to try again. */
export function ErrorState({
  error,
  what,
  onRetry,
}: {
  readonly error: ApiError;
  /** What could not be read: `the keys`. */
  readonly what: string;
  readonly onRetry: () => void;
}) {
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
      <Button variant="default" leftSection={<IconRefresh size={14} />} onClick={onRetry}>
        Try again
      </Button>
    </Stack>
  );
}
