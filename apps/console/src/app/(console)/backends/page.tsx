import type { Metadata } from 'next';
import { BackendsPage } from '~/features/fleet/backends-page.tsx';

export const metadata: Metadata = { title: 'Backends' };

export default function Page() {
  return <BackendsPage />;
}
