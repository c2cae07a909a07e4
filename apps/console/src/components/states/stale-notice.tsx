'use client';

import { duration } from '~/lib/format.ts';
import { useFreshness } from '~/lib/live/use-freshness.ts';
import { Notice } from './notice.tsx';

/** Says that a page is not the present, for as long as it is not, and that it mends itself. */
export function StaleNotice({
  read,
}: {
  readonly read: {
    readonly dataUpdatedAt: number;
    readonly isError: boolean;
    readonly failureCount: number;
  };
}) {
  const { ageMs, isStale } = useFreshness(read);
  if (!isStale) return null;
  return (
    <Notice tone="bad">
      {`Stale: this is how it was ${duration(ageMs)} ago. The controller does not answer; trying again by itself.`}
    </Notice>
  );
}
