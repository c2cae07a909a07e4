import type { Metadata } from 'next';
import { PageMissing } from '~/ui/states/page-missing.tsx';

export const metadata: Metadata = { title: { absolute: 'Page not found · Leasehold' } };

export default function NotFound() {
  return <PageMissing />;
}
