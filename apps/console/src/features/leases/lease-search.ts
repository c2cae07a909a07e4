import { PHASES, type Phase } from '@leasehold/keys-core';
import type { Inputs } from '~/lib/api.ts';
import type { Search } from '~/lib/search.ts';
import type { ListState } from '~/lib/use-list-state.ts';

/** What the search of leases knows beside names. */
export const LEASE_FIELDS = ['holder', 'phase', 'namespace'] as const;

export const LEASE_SORTS = ['name', 'grantedAt', 'expiresAt'] as const;
export type LeaseSort = (typeof LEASE_SORTS)[number];

/** Of lists of leases and of environments. */
const PAGE_ROWS = 100;

/** What is asked of `leases.list` for what the address says. */
export function leaseListInput(
  state: Pick<ListState<LeaseSort>, 'search' | 'sort' | 'direction' | 'after'>,
): NonNullable<Inputs['leases']['list']> {
  const { name, prefix, fields } = state.search;
  const { holder, namespace } = fields;
  const phase = PHASES.find((known: Phase) => known === fields['phase']);
  return {
    limit: PAGE_ROWS,
    sort: state.sort,
    direction: state.direction,
    ...(state.after === null ? {} : { cursor: state.after }),
    ...(name === undefined ? {} : { name }),
    ...(prefix === undefined ? {} : { prefix }),
    ...(holder === undefined ? {} : { holder }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(phase === undefined ? {} : { phase }),
  };
}

export type LeaseField = (typeof LEASE_FIELDS)[number] | 'action';

/** The search by one field: `namespace:billing.payouts`. */
export function fieldSearch(field: LeaseField, value: string): string {
  return `${field}:${word(value)}`;
}

/** The text of a search with one of its fields set anew; `null` leaves it out. */
export function withField(search: Search, field: LeaseField, value: string | null): string {
  const { name, prefix } = search;
  const others = Object.entries(search.fields).filter(([other]) => other !== field);
  const fields = value === null ? others : [...others, [field, value] as const];
  return [
    ...(name === undefined ? [] : [`"${name}"`]),
    ...(prefix === undefined ? [] : [prefix]),
    ...fields.map(([known, text]) => `${known}:${word(text)}`),
  ].join(' ');
}

function word(text: string): string {
  return /[\s"]/u.test(text) ? `"${text}"` : text;
}
