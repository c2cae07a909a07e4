import type { TokenRole } from '@leasehold/keys-core';
import type { Inputs } from '~/lib/api/api.ts';

/** What a new token is bound to; an empty list or a missing capacity sets no bound. */
export interface TokenBounds {
  readonly namespaces: string[];
  readonly programs: string[];
  readonly addresses: string[];
  readonly capacity: number | null;
}

export const NO_BOUNDS: TokenBounds = {
  namespaces: [],
  programs: [],
  addresses: [],
  capacity: null,
};

/** Which bounds a role has: only a drone has a capacity and addresses, and a viewer starts nothing. */
export function boundsOf(role: TokenRole): readonly (keyof TokenBounds)[] {
  if (role === 'drone') return ['programs', 'capacity', 'addresses'];
  return role === 'viewer' ? ['namespaces'] : ['namespaces', 'programs'];
}

/** The bounds as they are sent to the API. What was filled in for another role is left out. */
export function boundsInput(
  role: TokenRole,
  bounds: TokenBounds,
): Pick<Inputs['tokens']['create'], keyof TokenBounds> {
  const filled = boundsOf(role)
    .map((name) => [name, bounds[name]] as const)
    .filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0));
  return Object.fromEntries(filled);
}
