import type { Metadata } from 'next';
import { DroneDetailPage } from '~/features/drones/drone-detail-page.tsx';

interface Params {
  readonly searchParams: Promise<{ readonly id?: string | string[] }>;
}

export async function generateMetadata({ searchParams }: Params): Promise<Metadata> {
  return { title: idOf((await searchParams).id) };
}

export default async function Page({ searchParams }: Params) {
  return <DroneDetailPage droneId={idOf((await searchParams).id)} />;
}

function idOf(id: string | string[] | undefined): string {
  return (Array.isArray(id) ? id[0] : id) ?? '';
}
