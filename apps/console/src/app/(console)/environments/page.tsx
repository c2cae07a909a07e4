import type { Metadata } from 'next';
import { EnvironmentsPage } from '~/features/leases/environments-page.tsx';

export const metadata: Metadata = { title: 'Environments' };

export default function Page() {
  return <EnvironmentsPage />;
}
