import type { Metadata } from 'next';
import { KeysPage } from '~/features/keys/keys-page.tsx';
import { isSeveralDatacenters, Prefetched } from '~/lib/api/prefetch.tsx';
import { firstOf, listedDatacenters } from '~/lib/routes.ts';
import { keyListInput, keyListStateOf } from '~/resources/list/grant-search.ts';

export const metadata: Metadata = { title: 'Keys' };

export default async function Page({
  searchParams,
}: {
  readonly searchParams: Promise<Readonly<Record<string, string | string[]>>>;
}) {
  const params = await searchParams;
  const input = {
    ...keyListInput(keyListStateOf(params)),
    ...listedDatacenters(firstOf(params['datacenter']) ?? null, await isSeveralDatacenters()),
  };
  return (
    <Prefetched first={{ group: 'keys', procedure: 'list', input }}>
      <KeysPage />
    </Prefetched>
  );
}
