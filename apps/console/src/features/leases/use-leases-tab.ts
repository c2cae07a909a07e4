'use client';

import { parseAsString, parseAsStringLiteral, useQueryStates } from 'nuqs';

export const LEASE_TABS = ['list', 'tree', 'contention', 'declared'] as const;
export type LeasesTab = (typeof LEASE_TABS)[number];

/** Which view of the leases is shown. Another view starts without the filters and order of the last. */
export function useLeasesTab(): {
  readonly tab: LeasesTab;
  readonly setTab: (tab: LeasesTab) => void;
} {
  const [{ tab }, setState] = useQueryStates(
    {
      tab: parseAsStringLiteral(LEASE_TABS).withDefault('list'),
      q: parseAsString,
      sort: parseAsString,
      dir: parseAsString,
      after: parseAsString,
      within: parseAsString,
      bulk: parseAsString,
    },
    { history: 'push' },
  );
  const leave = { q: null, sort: null, dir: null, after: null, within: null, bulk: null };
  return {
    tab,
    setTab: (next) => void setState({ ...leave, tab: next }),
  };
}
