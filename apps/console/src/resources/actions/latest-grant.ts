import { useQuery } from '@tanstack/react-query';
import { query } from '~/lib/api/api.ts';
import { at } from '~/lib/routes.ts';
import { type GrantFace, type GrantView, GROUP_OF } from '~/resources/grant-view.ts';
import { useLastWhole } from '~/ui/states.tsx';

/** The grant to look for: its resource, and which grant where others may hold that beside it. */
interface Sought {
  readonly face: GrantFace;
  readonly namespace: string;
  readonly name: string;
  readonly datacenter?: string | undefined;
  readonly leaseId: string;
  readonly isOneOfSeveral: boolean;
}

/**
 * What has become of a grant, also while the page is paused: the present grant of its resource, which may be the next
 * one; of one of several holders its own grant. Null where it does not exist any more; undefined: not known yet.
 */
export function useLatestGrant(
  { face, namespace, name, datacenter, leaseId, isOneOfSeveral }: Sought,
  { isEnabled = true, everyMs }: { readonly isEnabled?: boolean; readonly everyMs: number | false },
): GrantView | null | undefined {
  const where = at(datacenter);
  const only = useQuery({
    ...query(GROUP_OF[face], 'get', { namespace, name, ...where }),
    enabled: isEnabled && !isOneOfSeveral,
    refetchInterval: everyMs,
  });
  const own = useQuery({
    ...query('leases', 'list', { leaseId, limit: 1, ...where }),
    enabled: isEnabled && isOneOfSeveral,
    refetchInterval: everyMs,
  });
  const known = useLastWhole(own, `${leaseId} ${where.datacenter ?? ''}`);
  return isOneOfSeveral ? grantIn(known) : only.data;
}

/** The grant in a whole list of one: null if it does not exist any more, undefined if that is not known. */
export function grantIn<Grant>(
  list: { readonly items: readonly Grant[] } | undefined,
): Grant | null | undefined {
  return list === undefined ? undefined : (list.items[0] ?? null);
}
