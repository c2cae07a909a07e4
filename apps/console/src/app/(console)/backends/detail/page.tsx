import type { Metadata } from 'next';
import { BackendDetailPage } from '~/features/backends/backend-detail-page.tsx';

interface Params {
  readonly searchParams: Promise<{ readonly id?: string | string[] }>;
}

export async function generateMetadata({ searchParams }: Params): Promise<Metadata> {
  return { title: idOf((await searchParams).id) };
}

export default async function Page({ searchParams }: Params) {
  return <BackendDetailPage backendId={idOf((await searchParams).id)} />;
}

function idOf(id: string | string[] | undefined): string {
  return (Array.isArray(id) ? id[0] : id) ?? '';
}
