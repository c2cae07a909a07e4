'use client';

import { CopyableId } from '~/components/text/copyable-id.tsx';
import { LookBadge } from '~/components/text/phase-badge.tsx';
import { RelativeTime } from '~/components/text/relative-time.tsx';
import type { ReservationItem, ReservationLink } from './reservation-item.ts';
import { RESERVATION_LOOKS, STATE_TEXTS } from './reservation-looks.ts';
import classes from './chain.module.css';

/** Every reservation of a key from the first on: where, in which state, who moved it on, when and why. */
export function ChainList({
  links,
  stories,
  asOf,
}: {
  readonly links: readonly ReservationLink[];
  /** What each datacenter that could be asked says of its own, by reservation id. */
  readonly stories: ReadonlyMap<string, ReservationItem>;
  readonly asOf: string | undefined;
}) {
  return (
    <ol className={classes['list']} aria-label="Reservations of this key, oldest first">
      {links.map((link) => (
        <li key={link.reservationId}>
          <div className={classes['line']}>
            <strong className="mono">{link.datacenter}</strong>
            <LookBadge look={RESERVATION_LOOKS[link.state]} />
            <CopyableId
              id={link.reservationId.slice(link.datacenter.length + 1)}
              label={`reservation id in ${link.datacenter}`}
              isShort
            />
            <Story link={link} story={stories.get(link.reservationId)} asOf={asOf} />
          </div>
        </li>
      ))}
    </ol>
  );
}

function Story({
  link,
  story,
  asOf,
}: {
  readonly link: ReservationLink;
  readonly story: ReservationItem | undefined;
  readonly asOf: string | undefined;
}) {
  if (story === undefined) {
    return <span className={classes['said']}>{STATE_TEXTS[link.state]}</span>;
  }
  const { activatedAt, activatedBy, movedAt, movedBy, moveReason } = story;
  const time = (at: string) => <RelativeTime at={at} {...(asOf === undefined ? {} : { asOf })} />;
  return (
    <span className={classes['said']}>
      Activated {time(activatedAt)} by <span className="mono">{activatedBy}</span>
      {movedAt === null ? (
        '.'
      ) : (
        <>
          ; left {time(movedAt)}
          {movedBy === null ? null : (
            <>
              {' '}
              by <span className="mono">{movedBy}</span>
            </>
          )}
          {moveReason === null ? (
            '.'
          ) : (
            <>
              : <q dir="auto">{moveReason}</q>
            </>
          )}
        </>
      )}
    </span>
  );
}
