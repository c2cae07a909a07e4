import { JsonView } from '~/resources/detail/lazy-panels.tsx';
import { EmptyState } from '~/ui/states/empty-state.tsx';
import type { LeaseItem } from './lease-item.ts';

/** What the holder attached to a lease. */
export function Metadata({ of: { name, metadata } }: { readonly of: LeaseItem }) {
  return metadata === null || metadata === undefined ? (
    <EmptyState title="No metadata">Its holder attached none.</EmptyState>
  ) : (
    <JsonView value={metadata} label={`Metadata of ${name}`} />
  );
}
