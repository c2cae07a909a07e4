import type { UseQueryResult } from '@tanstack/react-query';
import { type ReactNode, useMemo, useState } from 'react';
import type { ApiError } from '~/lib/api/api-error.ts';
import { absolute, ago, duration } from '~/lib/format.ts';
import { type Read, staleReason, useFreshness } from '~/lib/live/freshness.ts';
import { StaleContext, useStaleSince } from '~/lib/live/use-database-now.ts';
import { signedOut } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { Foot, Notice } from './states.tsx';
import { CopyableId } from './text.tsx';
import { Tip } from './tip.tsx';
import classes from './stale.module.css';

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

/** `as of 2 s ago`, with the database's time on hover; marks stale data. */
export function DataAge({
  read,
  asOf,
}: {
  readonly read: Read;
  readonly asOf: string | undefined;
}) {
  const { ageMs, isStale } = useFreshness(read);
  if (read.dataUpdatedAt === 0) return null;
  const age = (
    <span
      className={classes['age']}
      data-stale={isStale || undefined}
      {...(asOf === undefined ? {} : { tabIndex: 0 })}
    >
      {isStale ? 'stale: ' : ''}as of {ago(ageMs)}
    </span>
  );
  // Lists whose answer does not carry the database's time have an age all the same.
  if (asOf === undefined) return age;
  return <Tip label={<span className="mono">database time {absolute(asOf)}</span>}>{age}</Tip>;
}
