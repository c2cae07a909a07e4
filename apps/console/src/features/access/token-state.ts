import type { TokenRole } from '@leasehold/keys-core';
import type { Inputs, Outputs } from '~/lib/api/api.ts';

export type Token = Outputs['tokens']['list']['items'][number];

const DAY_MS = 86_400_000;
/** How long before its end a token counts as ending soon. */
const SOON_MS = 7 * DAY_MS;

export type TokenState = 'active' | 'ending' | 'expired' | 'revoked';

/** Whether a token is in force, by the database's time. Pure. */
export function tokenState(
  { revokedAt, expiresAt }: Pick<Token, 'revokedAt' | 'expiresAt'>,
  nowMs: number,
): TokenState {
  if (revokedAt !== null) return 'revoked';
  if (expiresAt === null) return 'active';
  const restMs = Date.parse(expiresAt) - nowMs;
  if (restMs <= 0) return 'expired';
  return restMs <= SOON_MS ? 'ending' : 'active';
}

/** Why a token cannot be revoked; undefined when it can. */
export function revokeProblem(state: TokenState): string | undefined {
  return state === 'revoked' ? 'It was revoked already.' : undefined;
}

/** For how long a new token lasts. */
export const LIFETIMES = [
  { value: '7', label: 'In 7 days' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In one year' },
  { value: 'never', label: 'Never' },
] as const;

/** When a token that is made now ends; undefined for never. */
export function expiryOf(lifetime: string, nowMs: number): string | undefined {
  const days = Number(lifetime);
  return Number.isInteger(days) ? new Date(nowMs + days * DAY_MS).toISOString() : undefined;
}

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
