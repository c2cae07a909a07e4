import type { Metadata } from 'next';
import { KeysPage } from '~/features/keys/keys-page.tsx';

export const metadata: Metadata = { title: 'Keys' };

export default function Page() {
  return <KeysPage />;
}
