import type { Inputs } from '~/lib/api/api.ts';
import { type AskedState, grantListInput } from '~/resources/list/grant-search.ts';

/** The fields of the leases' search, beside names. */
export const LEASE_FIELDS = ['holder', 'phase', 'namespace', 'lease', 'is', 'own'] as const;

/** The input of `leases.list` for an address. */
export function leaseListInput(
  state: AskedState,
  recentMs?: number,
): NonNullable<Inputs['leases']['list']> {
  return { ...grantListInput(state, recentMs), namespace: state.search.fields['namespace'] };
}
