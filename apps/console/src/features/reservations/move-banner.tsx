import { CloseButton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type Outputs, query } from '~/lib/api/api.ts';
import { duration } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { at, routes } from '~/lib/routes.ts';
import { Stages } from '~/resources/actions/act-parts.tsx';
import { keyLabel } from '~/resources/names.ts';
import { Link } from '~/ui/text.tsx';
import {
  type FollowedMove,
  followedMoves,
  isOver,
  type MoveProgress,
  moveProgress,
} from './move-progress.ts';
import classes from '~/resources/actions/actions.module.css';

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
  look: 'is to move',
  wait: 'is to move',
  move: 'is moving',
  arrive: 'is moving',
  done: 'moved',
  elsewhere: 'did not move',
  failed: 'did not move',
};

const TONES: Partial<Record<MoveProgress['next'], string>> = {
  done: 'good',
  elsewhere: 'warn',
  failed: 'warn',
};

/** Follows a move, which the controllers carry out. */
function MoveBanner({ move }: { readonly move: FollowedMove }) {
  const { progress, heldUntil } = useProgress(move);
  return (
    <div className={classes['banner']} data-tone={TONES[progress.next] ?? 'info'}>
      <div className={classes['body']}>
        <span role="status">
          <Link href={routes.reservation(move.key)} className={classes['link'] ?? ''}>
            {keyLabel(move.key)}
          </Link>{' '}
          {VERBS[progress.next]} from {move.fromDatacenter} to {move.toDatacenter}. {progress.text}
        </span>
        {progress.next === 'wait' && heldUntil !== undefined ? (
          <WorstCase until={heldUntil} />
        ) : null}
        <Stages stages={progress.stages} />
      </div>
      <CloseButton
        size="sm"
        aria-label={`Dismiss the notice about ${keyLabel(move.key)}`}
        onClick={() => followedMoves.unfollow(move.fromId)}
      />
    </div>
  );
}

/** Reads by itself until the move is over, even while a dialog pauses the page. */
function useProgress(move: FollowedMove): {
  readonly progress: MoveProgress;
  readonly heldUntil: string | undefined;
} {
  const { key, fromId, fromDatacenter } = move;
  const observed = (links?: Links, request?: Outputs['reservations']['pendingMove']) =>
    moveProgress(move, { links, request });
  const detail = useQuery({
    ...query('reservations', 'get', { key: [...key] }),
    refetchInterval: ({ state: { data } }) =>
      isOver(observed(data?.links)) ? false : LOOK_EVERY_MS,
  });
  const links = detail.data?.links;
  const request = useQuery({
    ...query('reservations', 'pendingMove', {
      key: [...key],
      reservationId: fromId,
      ...at(fromDatacenter),
    }),
    enabled: observed(links).next === 'look',
    refetchInterval: ({ state: { data } }) =>
      isOver(observed(links, data)) ? false : LOOK_EVERY_MS,
  });
  return {
    progress: observed(links, request.data),
    heldUntil: request.data?.heldBy?.until,
  };
}

type Links = NonNullable<Outputs['reservations']['get']>['links'];

function WorstCase({ until }: { readonly until: string }) {
  const nowMs = useDatabaseNow();
  if (nowMs === null) return null;
  return (
    <span>free in {duration(Math.max(0, Date.parse(until) - nowMs))} unless it is renewed</span>
  );
}
