import type { Outputs } from '~/lib/api/api.ts';

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
