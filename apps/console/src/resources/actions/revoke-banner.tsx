import { CloseButton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useRef } from 'react';
import { resourceText } from '@leasehold/keys-core';
import { query } from '~/lib/api/api.ts';
import { fullName } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { at, routeOf } from '~/lib/routes.ts';
import { Link, VisibleText } from '~/ui/text.tsx';
import { Stages } from './act-parts.tsx';
import { useLatestGrant } from './latest-grant.ts';
import {
  elapsedText,
  type FollowedRevoke,
  followedRevokes,
  type RevokeProgress,
  revokeProgress,
} from './revoke-progress.ts';
import classes from './actions.module.css';

const LOOK_EVERY_MS = 1_000;

/** The banners of these revokes. */
export function RevokeBannerList({ revokes }: { readonly revokes: readonly FollowedRevoke[] }) {
  return (
    <section className={classes['banners']} aria-label="Revocations that you made">
      {revokes.map((revoke) =>
        revoke.outcome === 'gone' ? (
          <GoneBanner key={revoke.leaseId} revoke={revoke} />
        ) : (
          <RevokeBanner key={revoke.leaseId} revoke={revoke} />
        ),
      )}
    </section>
  );
}

function GoneBanner({ revoke }: { readonly revoke: FollowedRevoke }) {
  return (
    <div className={classes['banner']} data-tone="info">
      <div className={classes['body']}>
        <span role="status">
          <ResourceLink revoke={revoke} /> was not revoked: the grant with token{' '}
          <span className="mono">{revoke.fencingToken}</span> had ended before.
        </span>
      </div>
      <Dismiss revoke={revoke} />
    </div>
  );
}

function RevokeBanner({ revoke }: { readonly revoke: FollowedRevoke }) {
  const nowMs = useDatabaseNow() ?? Date.parse(revoke.requestedAt);
  const progress = useProgress(revoke, nowMs);
  return (
    <div
      className={classes['banner']}
      data-tone={progress.isOver ? 'good' : progress.isUndone ? 'info' : 'warn'}
    >
      <div className={classes['body']}>
        <span role="status">
          <ResourceLink revoke={revoke} />{' '}
          {revoke.mode === 'force' ? 'revoked by force' : 'revoked'}. {progress.text}
        </span>
        {progress.isUndone ? null : <span>{elapsedText(progress)}</span>}
        <Stages stages={progress.stages} />
      </div>
      {progress.isOver || progress.isUndone ? <Dismiss revoke={revoke} /> : null}
    </div>
  );
}

/** Reads by itself until the revoke is over, even while a dialog pauses the page. */
function useProgress(revoke: FollowedRevoke, nowMs: number): RevokeProgress {
  const { backendId } = revoke;
  const isTimeOver = revoke.stopsBy !== null && nowMs > Date.parse(revoke.stopsBy);
  const wasOver = useRef(false);
  const refetchInterval = isTimeOver && wasOver.current ? (false as const) : LOOK_EVERY_MS;
  const grant = useLatestGrant(revoke, { everyMs: refetchInterval });
  const backend = useQuery({
    ...query('backends', 'get', { backendId: backendId ?? '', ...at(revoke.datacenter) }),
    enabled: backendId !== null,
    refetchInterval,
  });
  const progress = revokeProgress(revoke, { grant, backend: backend.data ?? undefined }, nowMs);
  wasOver.current = progress.isOver;
  return progress;
}

function ResourceLink({ revoke }: { readonly revoke: FollowedRevoke }) {
  return (
    <Link href={routeOf(revoke.face, revoke)} className={classes['link'] ?? ''}>
      <VisibleText>{resourceText(revoke)}</VisibleText>
    </Link>
  );
}

function Dismiss({ revoke }: { readonly revoke: FollowedRevoke }) {
  return (
    <CloseButton
      size="sm"
      aria-label={`Dismiss the notice about ${fullName(revoke)}`}
      onClick={() => followedRevokes.unfollow(revoke.leaseId)}
    />
  );
}
