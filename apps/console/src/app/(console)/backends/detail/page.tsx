import type { Metadata } from 'next';
import { BackendDetailPage } from '~/features/fleet/backends/backend-detail-page.tsx';

interface Params {
  readonly searchParams: Promise<{
    readonly id?: string | string[];
    readonly datacenter?: string | string[];
  }>;
}

export async function generateMetadata({ searchParams }: Params): Promise<Metadata> {
  return { title: first((await searchParams).id) };
}

export default async function Page({ searchParams }: Params) {
  const { id, datacenter } = await searchParams;
  return <BackendDetailPage backendId={first(id)} datacenter={first(datacenter)} />;
}

function first(param: string | string[] | undefined): string {
  return (Array.isArray(param) ? param[0] : param) ?? '';
}
