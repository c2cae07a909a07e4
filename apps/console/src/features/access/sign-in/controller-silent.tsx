'use client';

import { Button } from '@mantine/core';
import { Notice } from '~/ui/states/notice.tsx';
import { useRefresh } from '~/ui/states/use-refresh.ts';

const RETRY_MS = 3_000;

/** Shown if no controller answered as the page was made. It asks again by itself; what was typed stays. */
export function ControllerSilent() {
  const refresh = useRefresh(RETRY_MS);
  return (
    <Notice
      tone="bad"
      action={
        <Button size="compact-xs" variant="default" onClick={refresh}>
          Look again now
        </Button>
      }
    >
      No controller answers, so nobody can sign in. This page looks again every few seconds.
    </Notice>
  );
}
