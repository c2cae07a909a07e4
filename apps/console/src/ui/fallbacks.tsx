'use client';

import { Button, Group } from '@mantine/core';
import { usePathname, useRouter } from 'next/navigation';
import { useEffect } from 'react';
import { type ApiError, isUnanswered } from '~/lib/api/api.ts';
import { openPalette } from '~/ui/shell/palette-store.ts';
import { PageHeader } from './page.tsx';
import { EmptyState, ErrorState, type Failure } from './states.tsx';
import { Link } from './text.tsx';

/** For an address without a page: what was asked for, and the ways on. */
export function PageMissing() {
  const pathname = usePathname();
  return (
    <>
      <PageHeader title="Page not found" />
      <EmptyState
        title="Nothing is at this address"
        action={
          <Group gap="xs" justify="center">
            <Button variant="default" onClick={openPalette}>
              Search
            </Button>
            <Button variant="default" component={Link} href="/">
              Overview
            </Button>
          </Group>
        }
      >
        <bdi className="mono" style={{ overflowWrap: 'anywhere' }}>
          {pathname}
        </bdi>{' '}
        is not a page of the console. A link may be old, or cut off.
      </EmptyState>
    </>
  );
}

const RETRY_MS = 2_000;

/** Shown when the session could not be read: no controller answers, or one has said why not. It retries by itself. */
export function ControllerDown({ error }: { readonly error: Failure & Pick<ApiError, 'details'> }) {
  const refresh = useRefresh(RETRY_MS);
  if (!isUnanswered(error)) {
    return (
      <main>
        <ErrorState read={{ error, refetch: refresh }} what="your session" />
      </main>
    );
  }
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

/** Renders the page again on the server, regularly and when it is called. */
function useRefresh(everyMs: number): () => void {
  const router = useRouter();
  useEffect(() => {
    const timer = setInterval(() => router.refresh(), everyMs);
    return () => clearInterval(timer);
  }, [router, everyMs]);
  return () => router.refresh();
}
