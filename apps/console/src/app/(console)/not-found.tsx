import type { Metadata } from 'next';
import { PageMissing } from '~/ui/states/page-missing.tsx';

export const metadata: Metadata = { title: 'Page not found' };

export default function NotFound() {
  return <PageMissing />;
}
