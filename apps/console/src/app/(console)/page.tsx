import type { Metadata } from 'next';
import { OverviewPage } from '~/features/overview/overview-page.tsx';
import { DEFAULT_WINDOW_MINUTES } from '~/features/overview/overview-texts.ts';
import { Prefetched } from '~/lib/api/prefetch.tsx';

// The template of a layout is for the pages below it, and not for the one beside it.
export const metadata: Metadata = { title: { absolute: 'Overview · Leasehold' } };

interface Props {
  readonly searchParams: Promise<Readonly<Record<string, string | string[] | undefined>>>;
}

export default async function Page({ searchParams }: Props) {
  const wanted = (await searchParams)['window'];
  const windowMinutes = typeof wanted === 'string' ? Number(wanted) : DEFAULT_WINDOW_MINUTES;
  return (
    <Prefetched first={{ group: 'stats', procedure: 'overview', input: { windowMinutes } }}>
      <OverviewPage />
    </Prefetched>
  );
}
