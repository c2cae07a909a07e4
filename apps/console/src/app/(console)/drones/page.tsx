import type { Metadata } from 'next';
import { DronesPage } from '~/features/fleet/drones-page.tsx';

export const metadata: Metadata = { title: 'Drones' };

export default function Page() {
  return <DronesPage />;
}
