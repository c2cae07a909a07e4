'use client';

import type { ReactNode } from 'react';
import { at } from '~/lib/datacenters/here.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes, type ResourceRef } from '~/lib/routes.ts';
import { GrantActions } from '~/resources/actions/grant-actions.tsx';
import { WayBack } from '~/resources/detail/way-back.tsx';
import { GROUP_OF } from '~/resources/grant-view.ts';
import { DeadlineLadder } from '~/resources/ladder/deadline-ladder.tsx';
import { PhaseBadge } from '~/resources/looks.tsx';
import { DetailPage } from '~/ui/page/detail-page.tsx';
import { Panel } from '~/ui/page/panel.tsx';
import { EmptyState } from '~/ui/states/empty-state.tsx';
import type { LeaseItem } from './lease-item.ts';

/** Renewals make no events. */
const EVERY_MS = 2_000;

/** The list that each face belongs to. */
const LISTS = {
  lease: { label: 'Leases', list: routes.leases },
  environment: { label: 'Environments', list: routes.environments },
} as const;

interface DetailFrameProps {
  readonly face: 'lease' | 'environment';
  readonly resource: ResourceRef;
  /** What the page says beside the ladder: who, why, since when. */
  readonly facts: (lease: LeaseItem) => ReactNode;
  /** The tabs below. */
  readonly children: (lease: LeaseItem) => ReactNode;
}

/** A lease or an environment: its state, what can be done about it, its facts and its deadlines. */
export function DetailFrame({ face, resource, facts, children }: DetailFrameProps) {
  const { namespace, name, datacenter } = resource;
  const input = { namespace, name, ...at(datacenter) };
  const read = useLiveQuery(GROUP_OF[face], 'get', input, { everyMs: EVERY_MS });
  return (
    <DetailPage
      title={<bdi>{name}</bdi>}
      eyebrow={<WayBack {...LISTS[face]} namespace={namespace} />}
      what={`the ${face}`}
      read={read}
      missing={
        <EmptyState title={`No such ${face}`}>
          Nobody has asked for {face === 'lease' ? 'a lease' : 'an environment'} of this name, or it
          lies where you may not look.
        </EmptyState>
      }
      meta={({ phase }) => <PhaseBadge phase={phase} />}
      asOf={({ asOf }) => asOf}
      actions={(lease) => <GrantActions face={face} grant={lease} />}
    >
      {(lease) => (
        <>
          {facts(lease)}
          <Panel title="Deadlines">
            <DeadlineLadder face={face} grant={lease} />
          </Panel>
          {children(lease)}
        </>
      )}
    </DetailPage>
  );
}
