import type { Metadata } from 'next';
import { EventsPage } from '~/features/audit/events-page.tsx';

export const metadata: Metadata = { title: 'Events' };

export default function Page() {
  return <EventsPage />;
}
