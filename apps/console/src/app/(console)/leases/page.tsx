import type { Metadata } from 'next';
import { LeasesPage } from '~/features/leases/leases-page.tsx';

export const metadata: Metadata = { title: 'Leases' };

export default function Page() {
  return <LeasesPage />;
}
