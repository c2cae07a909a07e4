import { PHASES, type Phase } from '@leasehold/keys-core';
import type { Search } from '~/lib/search/search.ts';

/** What `phase:` of a search may be besides a phase: every one, however long it is over. */
export const ANY_PHASE = 'any';

/** For how long after its end a key or a lease is listed where no phase is asked for. */
export const RECENT_GRANTS_MS = 60 * 60 * 1_000;
/** Environments are few, and one that nobody deploys to today is still one. */
export const RECENT_ENVIRONMENTS_MS = 7 * 24 * 60 * 60 * 1_000;

/**
 * The phases that a list is asked for. A list for which nothing is said leaves out what ended long ago;
 * one that asks for a whole name, or for one grant, does not.
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
