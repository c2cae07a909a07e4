'use client';

import { Button, Group } from '@mantine/core';
import { usePathname } from 'next/navigation';
import { PageHeader } from '../page/page-header.tsx';
import { openPalette } from '../shell/palette-store.ts';
import { EmptyState } from './states.tsx';
import { Link } from '../link.tsx';

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
