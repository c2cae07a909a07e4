'use client';

import { Button, CloseButton } from '@mantine/core';
import { keyNameOf } from '@leasehold/keys-core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useRef } from 'react';
import { ActFailure } from '~/ui/dialogs/act-failure.tsx';
import { Link } from '~/ui/link.tsx';
import { query } from '~/lib/api/api.ts';
import { duration } from '~/lib/format.ts';
import { at } from '~/lib/datacenters/here.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { routes } from '~/lib/routes.ts';
import { useApiMutation } from '~/lib/api/use-api-mutation.ts';
import { followedMoves } from './followed-moves.ts';
import { moveProgress, type FollowedMove, type MoveProgress } from './move-progress.ts';
import { reservationFailure } from '../reservation-failure.ts';
import { keyLabel } from '~/resources/reservation-key.ts';
import { Stages } from '~/resources/actions/stages.tsx';
import classes from '~/resources/actions/banner.module.css';

const LOOK_EVERY_MS = 1_000;

/** The banners of these moves. */
export function MoveBannerList({ moves }: { readonly moves: readonly FollowedMove[] }) {
  return (
    <section className={classes['banners']} aria-label="Moves that you made">
      {moves.map((move) => (
        <MoveBanner key={move.fromId} move={move} />
      ))}
    </section>
  );
}

const VERBS: Record<MoveProgress['next'], string> = {
  wait: 'is to move',
  move: 'is to move',
  finish: 'is moving',
  done: 'moved',
  elsewhere: 'did not move',
  taken: 'did not move',
};

/** Follows a move, and makes it when the key that was revoked for it is free. */
function MoveBanner({ move }: { readonly move: FollowedMove }) {
  const progress = useProgress(move);
  const carryOut = useCarryOut(move, progress.next);
  const isOver = ['done', 'elsewhere', 'taken'].includes(progress.next);
  const isTroubled = progress.next === 'elsewhere' || progress.next === 'taken';
  return (
    <div
      className={classes['banner']}
      data-tone={progress.next === 'done' ? 'good' : isTroubled ? 'warn' : 'info'}
    >
      <div className={classes['body']}>
        <span role="status">
          <Link href={routes.reservation(move.key)} className={classes['link'] ?? ''}>
            {keyLabel(move.key)}
          </Link>{' '}
          {VERBS[progress.next]} from {move.fromDatacenter} to {move.toDatacenter}. {progress.text}
        </span>
        <WorstCase move={move} progress={progress} />
        <Stages stages={progress.stages} />
        <ActFailure error={reservationFailure(carryOut.error)} />
        {carryOut.isWanted ? (
          <Button size="compact-xs" loading={carryOut.isPending} onClick={carryOut.run}>
            {progress.next === 'finish' ? 'Finish the move' : 'Move it now'}
          </Button>
        ) : null}
      </div>
      {isOver || carryOut.error !== null ? (
        <CloseButton
          size="sm"
          aria-label={`Dismiss the notice about ${keyLabel(move.key)}`}
          onClick={() => {
            followedMoves.unfollow(move.fromId);
          }}
        />
      ) : null}
    </div>
  );
}

/** Looks by itself, dialogs or not, until it is over. */
function useProgress(move: FollowedMove): MoveProgress {
  const { key, fromDatacenter } = move;
  const named = keyNameOf(key);
  const detail = useQuery({
    ...query('reservations', 'get', { key: [...key] }),
    refetchInterval: ({ state: { data } }) =>
      moveProgress(move, { links: data?.links }).next === 'done' ? false : LOOK_EVERY_MS,
  });
  const links = detail.data?.links;
  const isAtHome = moveProgress(move, { links, grant: undefined }).next === 'wait';
  const grant = useQuery({
    ...query('keys', 'get', { ...(named ?? { namespace: '', name: '-' }), ...at(fromDatacenter) }),
    enabled: named !== undefined && isAtHome,
    refetchInterval: LOOK_EVERY_MS,
  });
  return moveProgress(move, { links, grant: named === undefined ? null : grant.data });
}

/** Refusals that end by themselves: the key's last holder is not known to be gone yet. */
const PASSING: ReadonlySet<string> = new Set(['grant.hold_off', 'reservation.key_held']);

/**
 * The move itself. It is made once by itself, when the grant that it waited for has ended; whatever is
 * left after that is for the person to say.
 */
function useCarryOut(move: FollowedMove, next: MoveProgress['next']) {
  const mutation = useApiMutation('reservations', 'move');
  const begun = useRef(false);
  const { mutate, error } = mutation;
  const run = (): void => {
    const { key, toDatacenter, reason } = move;
    mutate({ key: [...key], toDatacenter, reason });
  };
  const isDue = next === 'move' && move.waitsFor !== null;
  const onDue = useEffectEvent(run);
  useEffect(() => {
    if (!isDue || begun.current) return;
    begun.current = true;
    onDue();
  }, [isDue]);
  // Each refusal is an object of its own, and begins another wait.
  const passing = error !== null && PASSING.has(error.code) ? error : null;
  useEffect(() => {
    if (passing === null || !isDue) return undefined;
    const timer = setTimeout(onDue, LOOK_EVERY_MS);
    return () => {
      clearTimeout(timer);
    };
  }, [passing, isDue]);
  const isUndone = next === 'move' || next === 'finish';
  return {
    run,
    isPending: mutation.isPending,
    error: isUndone && passing === null ? error : null,
    isWanted: isUndone && passing === null && (!isDue || error !== null),
  };
}

function WorstCase({
  move,
  progress,
}: {
  readonly move: FollowedMove;
  readonly progress: MoveProgress;
}) {
  const nowMs = useDatabaseNow();
  const stopsBy = move.waitsFor?.stopsBy ?? null;
  if (progress.next !== 'wait' || stopsBy === null || nowMs === null) return null;
  return (
    <span className={classes['elapsed']}>
      free in {duration(Date.parse(stopsBy) - nowMs)} at the latest
    </span>
  );
}
