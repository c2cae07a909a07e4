'use client';

import { Tabs } from '@mantine/core';
import { parseAsString, parseAsStringLiteral, useQueryStates } from 'nuqs';
import type { ReactNode } from 'react';

interface DetailTab {
  /** The tab's value in the address. */
  readonly value: string;
  readonly label: string;
  readonly panel: ReactNode;
}

/** The tabs of the page of one thing, in the address; another tab begins on its first page. */
export function DetailTabs({
  label,
  tabs,
}: {
  /** What a screen reader calls them. */
  readonly label: string;
  /** The first is shown unless the address names another. */
  readonly tabs: readonly [DetailTab, ...DetailTab[]];
}) {
  const [{ tab: shown }, setState] = useQueryStates(
    {
      tab: parseAsStringLiteral(tabs.map(({ value }) => value)).withDefault(tabs[0].value),
      after: parseAsString,
    },
    { history: 'push' },
  );
  return (
    <Tabs value={shown} keepMounted={false} onChange={(tab) => void setState({ tab, after: null })}>
      <Tabs.List mb="sm" aria-label={label}>
        {tabs.map(({ value, label: name }) => (
          <Tabs.Tab key={value} value={value}>
            {name}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {tabs.map(({ value, panel }) => (
        <Tabs.Panel key={value} value={value}>
          {panel}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
