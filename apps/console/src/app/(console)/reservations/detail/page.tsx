import type { Metadata } from 'next';
import { ReservationDetailPage } from '~/features/reservations/reservation-detail-page.tsx';
import { firstOf } from '~/lib/routes.ts';
import { keyLabel, keyOfAddress } from '~/resources/names.ts';

interface Params {
  readonly searchParams: Promise<{ readonly key?: string | string[] }>;
}

export async function generateMetadata({ searchParams }: Params): Promise<Metadata> {
  const { key } = await searchParams;
  const addressed = keyOfAddress(firstOf(key) ?? '');
  return { title: 'key' in addressed ? keyLabel(addressed.key) : 'Reservation' };
}

export default function Page() {
  return <ReservationDetailPage />;
}
