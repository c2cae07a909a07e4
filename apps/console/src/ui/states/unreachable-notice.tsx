import { absolute } from '~/lib/format.ts';
import { Notice } from './notice.tsx';

export interface UnreachableDatacenter {
  readonly datacenter: string;
  /** Null: it has not been reached since this controller started. */
  readonly since: string | null;
  readonly code: string | null;
}

/** Names the datacenters whose part of a list is missing, above the rest of the list. */
export function UnreachableNotice({
  unreachable,
}: {
  readonly unreachable: readonly UnreachableDatacenter[] | undefined;
}) {
  if (unreachable === undefined || unreachable.length === 0) return null;
  return (
    <Notice tone="warn">
      {unreachable.map(unreachableText).join('; ')}. What lives there is not shown, and goes on.
    </Notice>
  );
}

/** `dc2 cannot be reached since …`, or that it refuses this datacenter's credentials. */
function unreachableText({ datacenter, since, code }: UnreachableDatacenter): string {
  const what =
    code === 'peer.refused' ? 'refuses this datacenter’s credentials' : 'cannot be reached';
  return since === null
    ? `${datacenter} ${what}`
    : `${datacenter} ${what} since ${absolute(since)}`;
}
