'use client';

import type { ApiError } from '~/lib/api-error.ts';
import { duration } from '~/lib/format.ts';
import { useFreshness } from '~/lib/live/use-freshness.ts';
import { signedOut } from '~/lib/signed-out.ts';
import { useSignal } from '~/lib/use-signal.ts';
import { Notice } from './notice.tsx';
import { staleReason } from './stale-reason.ts';

/** Says that a page is not the present, for as long as it is not, why, and what ends that. */
export function StaleNotice({
  read,
}: {
  readonly read: {
    readonly dataUpdatedAt: number;
    readonly isError: boolean;
    readonly failureCount: number;
    /** Why the last try failed. */
    readonly failureReason: ApiError | null;
  };
}) {
  const { ageMs, isStale } = useFreshness(read);
  const isSignedOut = useSignal(signedOut);
  if (!isStale) return null;
  const reason = staleReason(read.failureReason, isSignedOut);
  return (
    <Notice tone="bad">{`Stale: this is how it was ${duration(ageMs)} ago. ${reason}`}</Notice>
  );
}
