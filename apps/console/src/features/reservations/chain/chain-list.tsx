import type { ReservationLink } from '../reservation-item.ts';
import { RESERVATION_LOOKS, STATE_TEXTS } from '../reservation-looks.ts';
import { CopyableId, LookBadge, RelativeTime, VisibleText } from '~/ui/text.tsx';
import classes from './chain.module.css';

/** Every reservation of a key from the first on: where, in which state, who moved it on, when and why. */
export function ChainList({ links }: { readonly links: readonly ReservationLink[] }) {
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
            <span className={classes['said']}>
              <Said link={link} />
            </span>
          </div>
        </li>
      ))}
    </ol>
  );
}

function Said({ link: { state, left } }: { readonly link: ReservationLink }) {
  if (left === null) {
    return state === 'moved'
      ? `${STATE_TEXTS.moved} Its datacenter cannot be reached, so it is unknown who moved it.`
      : STATE_TEXTS[state];
  }
  return (
    <>
      Left <RelativeTime at={left.at} />, moved by <span className="mono">{left.by}</span>
      {left.reason === null ? (
        '.'
      ) : (
        <>
          :{' '}
          <q dir="auto">
            <VisibleText>{left.reason}</VisibleText>
          </q>
        </>
      )}
    </>
  );
}
