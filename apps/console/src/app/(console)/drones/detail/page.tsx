import type { Metadata } from 'next';
import { DroneDetailPage } from '~/features/fleet/drone-detail-page.tsx';
import { idOf, type IdParams } from '~/lib/routes.ts';

export async function generateMetadata({ searchParams }: IdParams): Promise<Metadata> {
  return { title: idOf(await searchParams).id };
}

export default async function Page({ searchParams }: IdParams) {
  const { id, datacenter } = idOf(await searchParams);
  return <DroneDetailPage droneId={id} datacenter={datacenter} />;
}
