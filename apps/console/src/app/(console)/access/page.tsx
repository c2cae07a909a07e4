import type { Metadata } from 'next';
import { AccessPage } from '~/features/access/access-page.tsx';

export const metadata: Metadata = { title: 'Access' };

export default function Page() {
  return <AccessPage />;
}
