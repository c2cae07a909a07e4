import { useMemo, useState, type ReactNode } from 'react';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ApiError } from '~/lib/api/api-error.ts';
import { duration } from '~/lib/format.ts';
import { StaleContext, useStaleSince } from '~/lib/live/use-database-now.ts';
import { useFreshness } from '~/lib/live/use-freshness.ts';
import { signedOut } from '~/lib/session/signed-out.ts';
import { useSignal } from '~/lib/signal.ts';
import { CopyableId } from '../text/text.tsx';
import { Foot } from './foot.tsx';
import { Notice } from './notice.tsx';
import { staleReason } from './stale-reason.ts';

/**
 * Around what a read is shown in. While that is stale, it shows this, why, and what ends it, and the
 * clock stands still inside, at the moment when the data came: a countdown that went on would show an
 * end that nobody has seen. Inside another one that already shows this, it shows nothing.
 */
export function StaleScope({
  read,
  children,
}: {
  readonly read: UseQueryResult<unknown, ApiError>;
  readonly children: ReactNode;
}) {
  const { ageMs, cameAtMs, ...freshness } = useFreshness(read);
  // Until the first read nothing is shown that could be stale.
  const isStale = freshness.isStale && read.data !== undefined;
  const isSignedOut = useSignal(signedOut);
  const failure = read.error ?? read.failureReason;
  const incidentId = useFirst(isStale, failure?.incidentId ?? null);
  const isSaid = useStaleSince() !== null;
  const since = useMemo(() => (isStale ? { databaseMs: cameAtMs } : null), [isStale, cameAtMs]);
  return (
    <>
      {isStale && !isSaid ? (
        <Foot>
          <Notice tone="bad">
            Stale. {staleReason(failure, isSignedOut)}{' '}
            {/* For eyes: told to screen readers, the notice would be read out each second. */}
            {read.dataUpdatedAt === 0 ? null : (
              <span aria-hidden>This is how it was {duration(ageMs)} ago. </span>
            )}
            {incidentId === null ? null : (
              <>
                Incident <CopyableId id={incidentId} label="incident id" />
              </>
            )}
          </Notice>
        </Foot>
      ) : null}
      <StaleContext value={since}>{children}</StaleContext>
    </>
  );
}

/** The first value while it lasts: each retry fails with another one, and would be read out again. */
function useFirst(isLasting: boolean, value: string | null): string | null {
  const [first, setFirst] = useState<string | null>(null);
  const next = isLasting ? (first ?? value) : null;
  if (next !== first) setFirst(next);
  return next;
}
