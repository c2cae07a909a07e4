import type { Inputs } from '~/lib/api/api.ts';
import {
  type AskedState,
  grantListInput,
  RECENT_ENVIRONMENTS_MS,
} from '~/resources/list/grant-search.ts';

/** The fields of the leases' search, beside names. */
export const LEASE_FIELDS = ['holder', 'phase', 'namespace', 'lease', 'is', 'own'] as const;

/** The input of `leases.list` for an address. */
export function leaseListInput(
  state: AskedState,
  recentMs?: number,
): NonNullable<Inputs['leases']['list']> {
  return { ...grantListInput(state, recentMs), namespace: state.search.fields['namespace'] };
}

/** The fields of the environments' search, beside names. */
export const ENVIRONMENT_FIELDS = [
  'holder',
  'phase',
  'action',
  'namespace',
  'lease',
  'is',
] as const;

/** The input of `environments.list` for an address. */
export function environmentListInput(
  state: AskedState,
): NonNullable<Inputs['environments']['list']> {
  const { action } = state.search.fields;
  return { ...leaseListInput(state, RECENT_ENVIRONMENTS_MS), action };
}
