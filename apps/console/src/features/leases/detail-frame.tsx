'use client';

import { Stack } from '@mantine/core';
import { Link } from '~/ui/link.tsx';
import type { ReactNode } from 'react';
import { PageHeader } from '~/ui/page/page-header.tsx';
import { Panel } from '~/ui/page/panel.tsx';
import { DataAge } from '~/ui/states/data-age.tsx';
import { EmptyState } from '~/ui/states/empty-state.tsx';
import { ErrorState } from '~/ui/states/error-state.tsx';
import { StaleScope } from '~/ui/states/stale-scope.tsx';
import { PhaseBadge } from '~/resources/looks.tsx';
import { at } from '~/lib/datacenters/here.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import type { ResourceRef } from '~/lib/routes.ts';
import { DeadlineLadder } from '~/resources/ladder/deadline-ladder.tsx';
import { DetailSkeleton } from '~/resources/detail/detail-skeleton.tsx';
import { GrantActions } from '~/resources/actions/grant-actions.tsx';
import { GROUP_OF } from '~/resources/grant-view.ts';
import type { LeaseItem } from './lease-item.ts';

/** Renewals make no events. */
const EVERY_MS = 2_000;

export interface DetailFrameProps {
  readonly face: 'lease' | 'environment';
  readonly resource: ResourceRef;
  /** The list that it belongs to. */
  readonly list: { readonly label: string; readonly href: string };
  /** What the page says beside the ladder: who, why, since when. */
  readonly facts: (lease: LeaseItem) => ReactNode;
  /** The tabs below. */
  readonly children: (lease: LeaseItem) => ReactNode;
}

/** A lease or an environment: its state, what can be done about it, its facts and its deadlines. */
export function DetailFrame({ face, resource, list, facts, children }: DetailFrameProps) {
  const { namespace, name, datacenter } = resource;
  const input = { namespace, name, ...at(datacenter) };
  const read = useLiveQuery(GROUP_OF[face], 'get', input, { everyMs: EVERY_MS });
  const lease = read.data;
  const header = {
    title: <bdi>{resource.name}</bdi>,
    eyebrow: (
      <>
        <Link href={list.href}>{list.label}</Link>
        {resource.namespace === '' ? null : (
          <>
            {' / '}
            <bdi>{resource.namespace}</bdi>
          </>
        )}
      </>
    ),
  };
  if (lease === undefined || lease === null) {
    return (
      <>
        <PageHeader {...header} />
        <NotShown face={face} read={read} />
      </>
    );
  }
  return (
    <>
      <PageHeader
        {...header}
        meta={
          <>
            <PhaseBadge phase={lease.phase} />
            <DataAge read={read} asOf={lease.asOf} />
          </>
        }
        actions={<GrantActions face={face} grant={lease} />}
      />
      <Stack gap="sm">
        <StaleScope read={read}>
          {facts(lease)}
          <Panel title="Deadlines">
            <DeadlineLadder face={face} grant={lease} />
          </Panel>
          {children(lease)}
        </StaleScope>
      </Stack>
    </>
  );
}

/** None exists; or nothing is known yet, or nothing can be. */
function NotShown({
  face,
  read,
}: {
  readonly face: 'lease' | 'environment';
  readonly read: ReturnType<typeof useLiveQuery<'leases', 'get'>>;
}) {
  if (read.data === null) {
    return (
      <EmptyState title={`No such ${face}`}>
        Nobody has asked for {face === 'lease' ? 'a lease' : 'an environment'} of this name, or it
        lies where you may not look.
      </EmptyState>
    );
  }
  if (read.isError) {
    return (
      <ErrorState error={read.error} what={`the ${face}`} onRetry={() => void read.refetch()} />
    );
  }
  return <DetailSkeleton />;
}
