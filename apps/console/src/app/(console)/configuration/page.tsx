import type { Metadata } from 'next';
import { ConfigurationPage } from '~/features/access/configuration-page.tsx';

export const metadata: Metadata = { title: 'Configuration' };

export default function Page() {
  return <ConfigurationPage />;
}
