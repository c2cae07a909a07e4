import type { Metadata } from 'next';
import { ReservationsPage } from '~/features/reservations/reservations-page.tsx';

export const metadata: Metadata = { title: 'Reservations' };

export default function Page() {
  return <ReservationsPage />;
}
