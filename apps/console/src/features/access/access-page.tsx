'use client';

import { Tabs } from '@mantine/core';
import dynamic from 'next/dynamic';
import { parseAsString, parseAsStringLiteral, useQueryStates } from 'nuqs';
import { PageHeader } from '~/ui/page/page-header.tsx';
import { NotAllowed } from '~/ui/states/not-allowed.tsx';
import { useWhyNot } from '~/lib/session/session.tsx';
import { TokensTab } from './tokens/tokens-tab.tsx';

// What a first visit does not show is loaded with its tab.
const PeopleTab = dynamic(() =>
  import('./people/people-tab.tsx').then((module) => module.PeopleTab),
);

const TABS = ['tokens', 'people'] as const;
type Tab = (typeof TABS)[number];

/** The people and tokens that have access, and their roles. */
export function AccessPage() {
  const whyNot = useWhyNot('admin');
  const [{ tab, after }, setAddress] = useQueryStates(
    { tab: parseAsStringLiteral(TABS).withDefault('tokens'), after: parseAsString },
    { history: 'push' },
  );
  if (whyNot !== undefined) {
    return (
      <>
        <PageHeader title="Access" />
        <NotAllowed whyNot={whyNot}>
          Here administrators make API tokens and decide who may sign in.
        </NotAllowed>
      </>
    );
  }
  const state = { after, setAfter: (cursor: string | null) => void setAddress({ after: cursor }) };
  return (
    <>
      <PageHeader title="Access" />
      <Tabs
        value={tab}
        keepMounted={false}
        onChange={(value) => void setAddress({ tab: value as Tab, after: null })}
      >
        <Tabs.List mb="sm">
          <Tabs.Tab value="tokens">API tokens</Tabs.Tab>
          <Tabs.Tab value="people">People</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="tokens">
          <TokensTab state={state} />
        </Tabs.Panel>
        <Tabs.Panel value="people">
          <PeopleTab state={state} />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}
