/** The input of the lists of keys, leases and environments, from the address. Pure. */
import { type Phase, PHASES } from '@leasehold/keys-core';
import type { Inputs } from '~/lib/api/api.ts';
import type { ListState } from '~/lib/list-state.ts';
import { firstOf } from '~/lib/routes.ts';
import { parseSearch, type Search } from '~/lib/search.ts';

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

/** The fields of the keys' search, beside names. */
export const KEY_FIELDS = ['holder', 'phase', 'tag', 'drone', 'namespace', 'lease', 'is'] as const;

/** The input of `keys.list` for an address. A namespace includes its children. */
export function keyListInput(state: AskedState): NonNullable<Inputs['keys']['list']> {
  const { tag, drone, namespace } = state.search.fields;
  return {
    ...grantListInput(state),
    tag,
    droneId: drone,
    ...(namespace === undefined ? {} : { namespace, includeChildren: true }),
  };
}

/** The state of the list in an address, for the server: as `useListState` reads it. */
export function keyListStateOf(
  params: Readonly<Record<string, string | string[] | undefined>>,
): AskedState {
  const text = (name: string): string | undefined => firstOf(params[name]);
  return {
    search: parseSearch(text('q') ?? '', KEY_FIELDS),
    sort: GRANT_SORTS.find((known) => known === text('sort')) ?? 'name',
    direction: text('dir') === 'desc' ? 'desc' : 'asc',
    after: text('after') ?? null,
  };
}

export const GRANT_SORTS = ['name', 'grantedAt', 'expiresAt'] as const;
export type GrantSort = (typeof GRANT_SORTS)[number];

/** The part of the address that the input of a list depends on. */
export type AskedState = Pick<ListState<GrantSort>, 'search' | 'sort' | 'direction' | 'after'>;

const PAGE_ROWS = 100;
/** The values of `is:`. */
const KINDS = ['waited', 'overdue'] as const;
/** The value of `own:` that leaves out Leasehold's own leases. */
const NO = 'no';
/** A whole id of a grant. */
export const LEASE_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/iu;

/** What all three lists ask for. Without a phase, what ended longer than `recentMs` ago is left out. */
export function grantListInput(state: AskedState, recentMs: number = RECENT_GRANTS_MS) {
  const { search, sort, direction, after } = state;
  const { name, contains, fields } = search;
  const { holder, lease, own } = fields;
  const is = KINDS.find((known) => known === fields['is']);
  return {
    limit: PAGE_ROWS,
    cursor: after ?? undefined,
    sort,
    direction,
    name,
    contains,
    holder,
    leaseId: lease,
    // What is waited for or overdue is so now, however long ago it was granted.
    ...(is === undefined
      ? phaseInput(search, recentMs)
      : { ...phaseInput(search, recentMs), is, endedWithinMs: undefined }),
    ...(own === NO ? { withoutOwn: true } : {}),
  };
}

/** What the search asks for that no grant can have; the list is not read then, and this says why. */
export function grantSearchProblems(search: Search): readonly string[] {
  const { lease, is, own } = search.fields;
  return [
    ...search.problems,
    ...phaseProblems(search),
    ...(is === undefined || KINDS.some((known) => known === is)
      ? []
      : [`is: is one of ${KINDS.join(', ')}`]),
    ...(own === undefined || own === NO ? [] : [`own: is ${NO}, or left out`]),
    ...(lease === undefined || LEASE_ID.test(lease) ? [] : ['lease: needs a whole lease id']),
  ];
}

/**
 * Why nothing can be done with all that a search finds; undefined without a problem. What is wrong in it is left out of
 * what is asked for, so that much more would be found than was meant.
 */
export function searchWhyNot(problems: readonly string[]): string | undefined {
  return problems.length === 0 ? undefined : `Correct the search first: ${problems.join('; ')}.`;
}

/** The value of `phase:` for every phase, no matter how long ago the grant ended. */
export const ANY_PHASE = 'any';

/** How long after its end a key or a lease stays listed if the search names no phase. */
const RECENT_GRANTS_MS = 60 * 60 * 1_000;
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
