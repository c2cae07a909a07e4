import type { Metadata } from 'next';
import { PageMissing } from '~/ui/fallbacks.tsx';

export const metadata: Metadata = { title: { absolute: 'Page not found · Leasehold' } };

export default function NotFound() {
  return <PageMissing />;
}
