import type { Metadata } from 'next';
import { OverviewPage } from '~/features/overview/overview-page.tsx';
import { DEFAULT_WINDOW_MINUTES } from '~/features/overview/windows.ts';
import { Prefetched } from '~/lib/api/prefetch.tsx';

export const metadata: Metadata = { title: 'Overview' };

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
