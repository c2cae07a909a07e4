'use client';

import { resourceText } from '@leasehold/keys-core';
import { type ResourceRef, routes } from '~/lib/routes.ts';
import { GrantDetail, LastRefusal } from '~/resources/grant/grant-detail.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { Link, VisibleText } from '~/ui/text.tsx';
import { BackendLog, BackendPanel } from './backend-panel.tsx';

/** One key: its deadlines, who holds it and what runs for it, its past, and what can be done. */
export function KeyDetailPage({ resource }: { readonly resource: ResourceRef }) {
  return (
    <GrantDetail
      face="key"
      resource={resource}
      missing={<NoKey resource={resource} />}
      backend={(item) => <BackendPanel resource={item} />}
      log={(item) => <BackendLog resource={item} />}
    />
  );
}

function NoKey({ resource }: { readonly resource: ResourceRef }) {
  return (
    <EmptyState title="No such key">
      Nobody has connected to{' '}
      <span className="mono">
        <VisibleText>{resourceText(resource)}</VisibleText>
      </span>
      , or its record has been removed. A key exists once a caller connects to it.{' '}
      <Link href={routes.reservation([resource.namespace, resource.name])}>Show its home</Link>
      <LastRefusal face="key" resource={resource} />
    </EmptyState>
  );
}
