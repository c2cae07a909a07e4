import type { Inputs } from '~/lib/api/api.ts';
import { grantListInput, type AskedState } from '~/resources/list/grant-search.ts';

/** What the search of leases knows beside names. */
export const LEASE_FIELDS = ['holder', 'phase', 'namespace', 'lease'] as const;

/** What is asked of `leases.list` for what the address says. */
export function leaseListInput(
  state: AskedState,
  recentMs?: number,
): NonNullable<Inputs['leases']['list']> {
  const { namespace } = state.search.fields;
  return {
    ...grantListInput(state, recentMs),
    ...(namespace === undefined ? {} : { namespace }),
  };
}
