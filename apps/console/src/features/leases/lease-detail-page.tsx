'use client';

import dynamic from 'next/dynamic';
import type { ResourceRef } from '~/lib/routes.ts';
import { GrantDetail } from '~/resources/grant/grant-detail.tsx';
import { EmptyState } from '~/ui/states.tsx';

// Loaded after what is seen first.
const FreezesPanel = dynamic(() =>
  import('./freezes-panel.tsx').then((module) => module.FreezesPanel),
);

// Few leases may be held by several.
const PoolPanel = dynamic(() => import('./pool-panel.tsx').then((module) => module.PoolPanel));

/** One lease or environment: its deadlines, who has it and why, who waits for it, and who had it before. */
export function LeaseDetailPage({
  face,
  resource,
}: {
  readonly face: 'lease' | 'environment';
  readonly resource: ResourceRef;
}) {
  return (
    <GrantDetail
      face={face}
      resource={resource}
      more={(item) => {
        if (face === 'environment') return <FreezesPanel of={item} />;
        return item.pool === null ? null : <PoolPanel lease={item} pool={item.pool} />;
      }}
      missing={
        <EmptyState title={`No such ${face}`}>
          Nobody has acquired {face === 'lease' ? 'a lease' : 'an environment'} of this name, or it
          is in a namespace that you may not see.
        </EmptyState>
      }
    />
  );
}
