'use client';

import dynamic from 'next/dynamic';
import { DetailTabs } from '~/ui/page/detail-tabs.tsx';
import { PageHeader } from '~/ui/page/page-header.tsx';
import { NotAllowed } from '~/ui/states/states.tsx';
import { useWhyNot } from '~/lib/session/session.tsx';
import { TokensTab } from './tokens/tokens-tab.tsx';

// What a first visit does not show is loaded with its tab.
const PeopleTab = dynamic(() =>
  import('./people/people-tab.tsx').then((module) => module.PeopleTab),
);

/** The people and tokens that have access, and their roles. */
export function AccessPage() {
  const whyNot = useWhyNot('admin');
  return (
    <>
      <PageHeader title="Access" />
      {whyNot === undefined ? (
        <DetailTabs
          tabs={[
            { value: 'tokens', label: 'API tokens', panel: <TokensTab /> },
            { value: 'people', label: 'People', panel: <PeopleTab /> },
          ]}
        />
      ) : (
        <NotAllowed whyNot={whyNot}>
          Administrators create API tokens and decide who may sign in here.
        </NotAllowed>
      )}
    </>
  );
}
