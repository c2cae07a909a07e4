import type { Inputs } from '~/lib/api/api.ts';
import { type AskedState, RECENT_ENVIRONMENTS_MS } from '~/resources/list/grant-search.ts';
import { leaseListInput } from '../lease-search.ts';

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
