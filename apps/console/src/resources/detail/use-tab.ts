'use client';

import { parseAsString, parseAsStringLiteral, useQueryStates } from 'nuqs';

/** The tab of a page, in the address; another tab begins on its first page. */
export function useTab<Tab extends string>(
  tabs: readonly [Tab, ...Tab[]],
): readonly [Tab, (tab: string | null) => void] {
  const [state, setState] = useQueryStates(
    {
      tab: parseAsStringLiteral<string>(tabs).withDefault(tabs[0]),
      after: parseAsString,
    },
    { history: 'push' },
  );
  const shown = tabs.find((tab) => tab === state.tab) ?? tabs[0];
  return [shown, (tab) => void setState({ tab, after: null })];
}
