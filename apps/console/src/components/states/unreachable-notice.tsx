import { Notice } from './notice.tsx';
import { absolute } from '~/lib/format.ts';

export interface UnreachableDatacenter {
  readonly datacenter: string;
  readonly since: string;
  readonly code: string;
}

/** Datacenters whose part of a list is missing, said above what there is of the rest. */
export function UnreachableNotice({
  unreachable,
}: {
  readonly unreachable: readonly UnreachableDatacenter[] | undefined;
}) {
  if (unreachable === undefined || unreachable.length === 0) return null;
  return (
    <Notice tone="warn">
      {unreachable
        .map(({ datacenter, since }) => `${datacenter} cannot be reached since ${absolute(since)}`)
        .join('; ')}
      . What lives there is not shown.
    </Notice>
  );
}
