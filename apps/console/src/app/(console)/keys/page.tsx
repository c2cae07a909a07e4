import type { Metadata } from 'next';
import { keyListInput, keyListStateOf } from '~/features/keys/key-search.ts';
import { KeysPage } from '~/features/keys/keys-page.tsx';
import { Prefetched } from '~/lib/prefetch.tsx';

export const metadata: Metadata = { title: 'Keys' };

export default async function Page({
  searchParams,
}: {
  readonly searchParams: Promise<Readonly<Record<string, string | string[]>>>;
}) {
  const input = keyListInput(keyListStateOf(await searchParams));
  return (
    <Prefetched first={{ group: 'keys', procedure: 'list', input }}>
      <KeysPage />
    </Prefetched>
  );
}
