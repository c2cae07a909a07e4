import { BACKEND_STATUSES, type BackendStatus } from '@leasehold/keys-core';
import type { Inputs } from '~/lib/api/api.ts';
import type { Search } from '~/lib/search.ts';

const PAGE_ROWS = 100;

/** The fields of the backends' search, beside the whole name of a key. */
export const BACKEND_FIELDS = ['drone', 'program', 'namespace', 'key'] as const;

/** The filters of the backends, as the address has them. */
interface BackendsWanted {
  readonly search: Search;
  readonly status: string | null;
  readonly live: boolean;
  readonly after: string | null;
}

export function statusOf(text: string | null): BackendStatus | null {
  return BACKEND_STATUSES.find((known) => known === text) ?? null;
}

/** The input of `backends.list`. Backends are found by whole names only, so a bare word is a whole name. */
export function backendListInput(wanted: BackendsWanted): NonNullable<Inputs['backends']['list']> {
  const { search, after, live } = wanted;
  const { drone, program, namespace, key } = search.fields;
  return {
    ...{ limit: PAGE_ROWS, cursor: after ?? undefined, droneId: drone, program, namespace },
    name: key ?? search.name ?? search.contains,
    status: statusOf(wanted.status) ?? undefined,
    live: live || undefined,
  };
}
