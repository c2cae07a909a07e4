import { Skeleton, Stack, Tabs } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { choiceParam, textParam, useQueryStates } from '~/lib/address.ts';
import type { ApiError } from '~/lib/api/api.ts';
import { fieldText } from '~/lib/search.ts';
import { PageHeader } from './page.tsx';
import { DataAge, StaleScope } from './stale.tsx';
import { ErrorState } from './states.tsx';
import { Link, VisibleText } from './text.tsx';

/** The page of one thing: its header, and the rest once it was read; or why there is nothing to show. */
export function DetailPage<Item>({
  title,
  eyebrow,
  what,
  read,
  missing,
  missingCode,
  meta,
  asOf,
  everyMs,
  actions,
  children,
}: {
  readonly title: ReactNode;
  readonly eyebrow: ReactNode;
  /** What could not be read, in an error: `the drone`. */
  readonly what: string;
  /** Null: nothing was found. */
  readonly read: UseQueryResult<Item | null, ApiError>;
  readonly missing: ReactNode;
  /** The code of the error for "not found", if the answer is not null then. */
  readonly missingCode?: string;
  /** Beside the title, before the age of the data. */
  readonly meta: (item: Item) => ReactNode;
  /** The database's time of the answer, where it has one. */
  readonly asOf?: (item: Item) => string;
  /** How often it is read again, where that is seldom. */
  readonly everyMs?: number;
  readonly actions: (item: Item) => ReactNode;
  readonly children: (item: Item) => ReactNode;
}) {
  const { data: item, error } = read;
  const header = { title, eyebrow };
  if (item === undefined || item === null) {
    const isMissing = item === null || (error !== null && error.code === missingCode);
    return (
      <>
        <PageHeader {...header} />
        {isMissing ? (
          missing
        ) : error === null ? (
          <DetailSkeleton />
        ) : (
          <ErrorState read={read} what={what} />
        )}
      </>
    );
  }
  return (
    <>
      <PageHeader
        {...header}
        meta={
          <>
            {meta(item)}
            <DataAge read={read} asOf={asOf?.(item)} everyMs={everyMs} />
          </>
        }
        actions={actions(item)}
      />
      <Stack gap="sm">
        <StaleScope read={read} everyMs={everyMs}>
          {children(item)}
        </StaleScope>
      </Stack>
    </>
  );
}

/** The placeholder while a detail page is loading. */
function DetailSkeleton() {
  return (
    <Stack gap="sm" aria-busy="true" aria-label="Loading" role="status">
      <Skeleton height={220} />
      <Skeleton height={28} width="40%" />
      <Skeleton height={160} />
    </Stack>
  );
}

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
  const [{ tab: shown }, setState] = useQueryStates({
    ...Object.fromEntries(ofOneTab.map((name) => [name, textParam])),
    tab: choiceParam(tabs.map(({ value }) => value)).withDefault(tabs[0].value),
  });
  const none = Object.fromEntries(ofOneTab.map((name) => [name, null]));
  return (
    <Tabs value={shown} keepMounted={false} onChange={(tab) => setState({ ...none, tab })}>
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

/** The way back to a list, and the namespace that something is in, with the list of what is in it. */
export function WayBack({
  label,
  list,
  namespace,
}: {
  readonly label: string;
  /** The address of the list. */
  readonly list: (params?: Readonly<Record<string, string>>) => string;
  readonly namespace: string;
}) {
  return (
    <>
      <Link href={list()}>{label}</Link>
      {namespace === '' ? null : (
        <>
          {' / '}
          <Link href={list({ q: fieldText('namespace', namespace) })}>
            <VisibleText>{namespace}</VisibleText>
          </Link>
        </>
      )}
    </>
  );
}
