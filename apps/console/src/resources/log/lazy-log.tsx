import { Skeleton } from '@mantine/core';
import dynamic from 'next/dynamic';

/** A log is loaded with the part of a page that shows it. */
export const LogPanel = dynamic(() => import('./log-panel.tsx').then((module) => module.LogPanel), {
  ssr: false,
  loading: () => <Skeleton height={240} aria-busy="true" />,
});
