'use client';

import { Button } from '@mantine/core';
import { EmptyState } from './states.tsx';
import { useRefresh } from './use-refresh.ts';

const RETRY_MS = 2_000;

/** Shown when no controller answers. It retries by itself. */
export function ControllerDown() {
  const refresh = useRefresh(RETRY_MS);
  return (
    <main role="alert">
      <EmptyState
        title="No controller answers"
        action={
          <Button variant="default" onClick={refresh}>
            Try again now
          </Button>
        }
      >
        The console runs, but its controller does not answer. Holders keep their grants until the
        deadlines. This page tries again every two seconds.
      </EmptyState>
    </main>
  );
}
