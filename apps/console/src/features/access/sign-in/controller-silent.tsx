'use client';

import { Button } from '@mantine/core';
import { useRouter } from 'next/navigation';
import { useEffect } from 'react';
import { Notice } from '~/ui/states/notice.tsx';

const RETRY_MS = 3_000;

/** No controller answered as the page was made. Asked again by itself; what was typed stays. */
export function ControllerSilent() {
  const router = useRouter();
  useEffect(() => {
    const timer = setInterval(() => {
      router.refresh();
    }, RETRY_MS);
    return () => {
      clearInterval(timer);
    };
  }, [router]);
  return (
    <Notice
      tone="bad"
      action={
        <Button
          size="compact-xs"
          variant="default"
          onClick={() => {
            router.refresh();
          }}
        >
          Look again now
        </Button>
      }
    >
      No controller answers, so nobody can sign in. This page looks again every few seconds.
    </Notice>
  );
}
