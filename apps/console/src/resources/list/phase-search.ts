import { type Phase, PHASES } from '@leasehold/keys-core';
import type { Search } from '~/lib/search.ts';

/** The value of `phase:` for every phase, no matter how long ago the grant ended. */
export const ANY_PHASE = 'any';

/** How long after its end a key or a lease stays listed if the search names no phase. */
export const RECENT_GRANTS_MS = 60 * 60 * 1_000;
/** Environments are few, and one without a deployment today must still be listed. */
export const RECENT_ENVIRONMENTS_MS = 7 * 24 * 60 * 60 * 1_000;

/**
 * The phase that a list is asked for. Without one, what ended long ago is left out, unless the search
 * asks for any phase, a whole name or one grant.
 */
export function phaseInput(
  { name, fields }: Search,
  recentMs: number,
): { phase?: Phase; endedWithinMs?: number } {
  const { phase: said, lease } = fields;
  const phase = PHASES.find((known) => known === said);
  if (phase !== undefined) return { phase };
  const isEverything = said === ANY_PHASE || name !== undefined || lease !== undefined;
  return isEverything ? {} : { endedWithinMs: recentMs };
}

/** What is wrong with the `phase:` of a search. */
export function phaseProblems({ fields }: Search): readonly string[] {
  const { phase } = fields;
  const words = [...PHASES, ANY_PHASE];
  if (phase === undefined || words.some((known) => known === phase)) return [];
  return [`phase: is one of ${words.join(', ')}`];
}
