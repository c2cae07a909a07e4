import type { Metadata } from 'next';
import { RefusalsPage } from '~/features/audit/refusals-page.tsx';

export const metadata: Metadata = { title: 'Refusals' };

export default function Page() {
  return <RefusalsPage />;
}
