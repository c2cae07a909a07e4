import type { Metadata } from 'next';
import { KeyDetailPage } from '~/features/keys/key-detail-page.tsx';
import { Prefetched } from '~/lib/api/prefetch.tsx';

interface Params {
  readonly searchParams: Promise<{
    readonly namespace?: string | string[];
    readonly name?: string | string[];
    readonly datacenter?: string | string[];
  }>;
}

export async function generateMetadata({ searchParams }: Params): Promise<Metadata> {
  const name = first((await searchParams).name);
  return { title: name === '' ? 'Key' : name };
}

export default async function Page({ searchParams }: Params) {
  const { namespace, name, datacenter } = await searchParams;
  const at = datacenter === undefined ? {} : { datacenter: first(datacenter) };
  const input = { namespace: first(namespace), name: first(name), ...at };
  return (
    <Prefetched first={{ group: 'keys', procedure: 'get', input }}>
      <KeyDetailPage />
    </Prefetched>
  );
}

function first(value: string | string[] | undefined): string {
  return (Array.isArray(value) ? value[0] : value) ?? '';
}
