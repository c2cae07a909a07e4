'use client';

import dynamic from 'next/dynamic';
import { useWhyNot } from '~/lib/session.tsx';
import { DetailTabs } from '~/ui/detail-page.tsx';
import { PageHeader } from '~/ui/page.tsx';
import { NotAllowed } from '~/ui/states.tsx';
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
