'use client';

import { useMemo, type ReactNode } from 'react';
import type { ApiError } from '~/lib/api-error.ts';
import { duration } from '~/lib/format.ts';
import { StaleContext, useStaleSince } from '~/lib/live/stale-since.ts';
import { useFreshness, type Read } from '~/lib/live/use-freshness.ts';
import { signedOut } from '~/lib/signed-out.ts';
import { useSignal } from '~/lib/use-signal.ts';
import { Notice } from './notice.tsx';
import { staleReason } from './stale-reason.ts';

/**
 * Around what a read is shown in. While that is not the present it says so, why, and what ends it, and
 * the clock stands still inside, at the moment at which the data came: a countdown that went on would
 * tell of an end that nobody has seen. Inside of another one that has said so already, it is silent.
 */
export function StaleScope({
  read,
  children,
}: {
  readonly read: Read & {
    /** Why the last try failed. */
    readonly failureReason: ApiError | null;
  };
  readonly children: ReactNode;
}) {
  const { ageMs, isStale, cameAtMs } = useFreshness(read);
  const isSignedOut = useSignal(signedOut);
  const isSaid = useStaleSince() !== null;
  const since = useMemo(() => (isStale ? { databaseMs: cameAtMs } : null), [isStale, cameAtMs]);
  return (
    <>
      {isStale && !isSaid ? (
        <Notice tone="bad">
          Stale. {staleReason(read.failureReason, isSignedOut)}{' '}
          {/* For eyes: told to screen readers, the notice would be read out each second. */}
          <span aria-hidden>This is how it was {duration(ageMs)} ago.</span>
        </Notice>
      ) : null}
      <StaleContext value={since}>{children}</StaleContext>
    </>
  );
}
