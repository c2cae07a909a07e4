import { Tabs } from '@mantine/core';
import { parseAsString, parseAsStringLiteral, useQueryStates } from 'nuqs';
import type { ReactNode } from 'react';

interface DetailTab {
  /** The tab's value in the address. */
  readonly value: string;
  readonly label: string;
  readonly panel: ReactNode;
}

/** The tabs of a page, in the address; another tab begins on its first page. */
export function DetailTabs({
  label,
  tabs,
  others = [],
  panelClassName = '',
}: {
  /** What a screen reader calls them. */
  readonly label?: string;
  /** The first is shown unless the address names another. */
  readonly tabs: readonly [DetailTab, ...DetailTab[]];
  /** What else in the address belongs to one tab, and is left out with another. */
  readonly others?: readonly string[];
  readonly panelClassName?: string | undefined;
}) {
  const ofOneTab = ['after', ...others];
  const [{ tab: shown }, setState] = useQueryStates(
    {
      ...Object.fromEntries(ofOneTab.map((name) => [name, parseAsString])),
      tab: parseAsStringLiteral(tabs.map(({ value }) => value)).withDefault(tabs[0].value),
    },
    { history: 'push' },
  );
  const none = Object.fromEntries(ofOneTab.map((name) => [name, null]));
  return (
    <Tabs value={shown} keepMounted={false} onChange={(tab) => void setState({ ...none, tab })}>
      <Tabs.List mb="sm" aria-label={label}>
        {tabs.map(({ value, label: name }) => (
          <Tabs.Tab key={value} value={value}>
            {name}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {tabs.map(({ value, panel }) => (
        <Tabs.Panel key={value} value={value} className={panelClassName}>
          {panel}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
