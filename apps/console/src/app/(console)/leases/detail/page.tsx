import type { Metadata } from 'next';
import { LeaseDetailPage } from '~/features/leases/lease-detail-page.tsx';
import { resourceOf, type ResourceParams } from '~/lib/routes.ts';

export async function generateMetadata({ searchParams }: ResourceParams): Promise<Metadata> {
  return { title: resourceOf(await searchParams).name };
}

export default async function Page({ searchParams }: ResourceParams) {
  return <LeaseDetailPage face="lease" resource={resourceOf(await searchParams)} />;
}
