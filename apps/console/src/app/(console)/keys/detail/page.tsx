import type { Metadata } from 'next';
import { KeyDetailPage } from '~/features/keys/key-detail-page.tsx';
import { Prefetched } from '~/lib/api/prefetch.tsx';
import { resourceOf, type ResourceParams } from '~/lib/routes.ts';

export async function generateMetadata({ searchParams }: ResourceParams): Promise<Metadata> {
  const { name } = resourceOf(await searchParams);
  return { title: name === '' ? 'Key' : name };
}

export default async function Page({ searchParams }: ResourceParams) {
  const resource = resourceOf(await searchParams);
  const { namespace, name, datacenter } = resource;
  // The same input as the page itself uses in the browser.
  const input = { namespace, name, ...(datacenter === '' ? {} : { datacenter }) };
  return (
    <Prefetched first={{ group: 'keys', procedure: 'get', input }}>
      <KeyDetailPage resource={resource} />
    </Prefetched>
  );
}
