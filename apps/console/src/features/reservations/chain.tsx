import {
  IconArrowRight,
  IconBuildingOff,
  IconCircleArrowRight,
  IconCircleCheck,
  IconHourglass,
  IconPlugConnectedX,
} from '@tabler/icons-react';
import type { CSSProperties } from 'react';
import { datacenterOf, keyNameOf } from '@leasehold/keys-core';
import { CopyableId, type Look, LookBadge, RelativeTime, VisibleText } from '~/ui/text.tsx';
import type { ReservationLink } from './reservation-search.ts';
import classes from './reservations.module.css';

// Where each reservation of a chain is drawn.

/** Of a longer chain only the newest are drawn; the list below has all. */
export const DRAWN_MAX = 7;

interface DrawnLink {
  readonly link: Pick<ReservationLink, 'reservationId' | 'datacenter' | 'state'>;
  /** Its place in the chain, from 1. */
  readonly place: number;
  /** From 0, in the order of time. */
  readonly column: number;
  /** The lane of its datacenter, from 0. */
  readonly lane: number;
}

interface ChainLanes {
  readonly lanes: readonly string[];
  readonly links: readonly DrawnLink[];
  /** How many reservations come before the drawn ones. */
  readonly hiddenCount: number;
}

/** A lane for each datacenter: first those of the chain in its order, then those without a reservation. */
export function chainDrawing(
  links: readonly DrawnLink['link'][],
  datacenters: readonly string[],
): ChainLanes {
  const lanes = [...new Set([...links.map(({ datacenter }) => datacenter), ...datacenters])];
  const hiddenCount = Math.max(0, links.length - DRAWN_MAX);
  return {
    lanes,
    hiddenCount,
    links: links.slice(hiddenCount).map((link, column) => ({
      link,
      place: hiddenCount + column + 1,
      column,
      lane: lanes.indexOf(link.datacenter),
    })),
  };
}

/**
 * A chain across datacenters: a lane for each, a mark for each reservation from left to right, and
 * the way between them. Hidden from screen readers: the list below says the same.
 */
export function ChainDrawing({
  links,
  datacenters,
}: {
  readonly links: readonly ReservationLink[];
  readonly datacenters: readonly string[];
}) {
  const { lanes, links: drawn, hiddenCount } = chainDrawing(links, datacenters);
  const home = links.at(-1)?.datacenter;
  const size = { '--lanes': lanes.length, '--columns': drawn.length } as CSSProperties;
  return (
    <div
      className={classes['drawing']}
      style={size}
      data-cut={hiddenCount > 0 || undefined}
      aria-hidden
    >
      {lanes.map((lane, index) => (
        <div
          key={lane}
          className={classes['lane']}
          style={{ gridRow: index + 1 }}
          data-home={lane === home || undefined}
        >
          <span className="mono" title={lane}>
            {lane}
          </span>
        </div>
      ))}
      {hiddenCount === 0 ? null : (
        <span className={classes['before']}>{`${String(hiddenCount)} before`}</span>
      )}
      <div className={classes['plane']}>
        {drawn.slice(1).map((to, index) => (
          <Way key={to.link.reservationId} from={drawn[index]} to={to} />
        ))}
        {drawn.map((one) => (
          <Node key={one.link.reservationId} drawn={one} isInHome={one.link.datacenter === home} />
        ))}
      </div>
    </div>
  );
}

/** Along the lane that the key left, then across to the lane that it went to. */
function Way({ from, to }: { readonly from: DrawnLink | undefined; readonly to: DrawnLink }) {
  if (from === undefined) return null;
  const place = {
    '--column': from.column,
    '--top': Math.min(from.lane, to.lane),
    '--span': Math.abs(to.lane - from.lane),
  } as CSSProperties;
  return (
    <span
      className={classes['way']}
      data-toward={to.lane > from.lane ? 'down' : 'up'}
      data-sure={to.link.state === 'active' || to.link.state === 'moved' || undefined}
      style={place}
    />
  );
}

function Node({
  drawn: { link, place, column, lane },
  isInHome,
}: {
  readonly drawn: DrawnLink;
  /** Whether it is in the lane of the datacenter that the key lives in. */
  readonly isInHome: boolean;
}) {
  const { label, tone, icon: LookIcon } = RESERVATION_LOOKS[link.state];
  const at = { '--column': column, '--lane': lane } as CSSProperties;
  return (
    <span
      className={classes['node']}
      data-tone={tone}
      data-state={link.state}
      data-home={isInHome || undefined}
      style={at}
    >
      <span className={classes['mark']}>
        <LookIcon size={16} stroke={2} />
      </span>
      <span className={classes['label']}>
        {place}. {label}
      </span>
    </span>
  );
}

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

/** Of a longer path, only the first and the last are shown. */
const SHOWN_MAX = 4;

/** `dc1 → dc2`: the datacenters that a key passed through, up to where this reservation led. */
export function ChainPath({
  chain,
  movedTo,
}: {
  readonly chain: readonly string[];
  readonly movedTo: string | null;
}) {
  const all = [...chain, ...(movedTo === null ? [] : [movedTo])].map(datacenterOf);
  const isLong = all.length > SHOWN_MAX;
  const shown = isLong ? [...all.slice(0, 1), '…', ...all.slice(-2)] : all;
  const names = all.join(', then ');
  if (all.length === 1) return <span className="dimmed">not moved</span>;
  return (
    <span className={classes['path']} title={all.join(' → ')}>
      <span className="visually-hidden">{names}</span>
      {shown.map((name, index) => (
        <span key={index} className={classes['hop']} aria-hidden>
          {index === 0 ? null : <IconArrowRight size={12} />}
          <span className="mono" data-last={index === shown.length - 1 || undefined}>
            {name}
          </span>
        </span>
      ))}
    </span>
  );
}

/** A reserved key: the name of a key, or each string of any other list by itself. */
export function KeyText({ of }: { readonly of: readonly string[] }) {
  const named = keyNameOf(of);
  if (named !== undefined) return <VisibleText>{named.name}</VisibleText>;
  return (
    <span className={classes['parts']}>
      {of.map((part, index) => (
        // The same string may be in a list twice.
        <span key={index} className={`${classes['part'] ?? ''} mono`}>
          {part === '' ? '\u00a0' : <VisibleText>{part}</VisibleText>}
        </span>
      ))}
    </span>
  );
}

/** One look for each state of a reservation, everywhere: never colour alone. */
export const RESERVATION_LOOKS: Record<ReservationLink['state'], Look> = {
  active: { label: 'Active', tone: 'good', icon: IconCircleCheck },
  moved: { label: 'Moved on', tone: 'calm', icon: IconCircleArrowRight },
  pending: { label: 'Pending', tone: 'info', icon: IconHourglass },
  unreachable: { label: 'Unreachable', tone: 'bad', icon: IconPlugConnectedX },
  given_up: { label: 'Given up', tone: 'warn', icon: IconBuildingOff },
};

/** What a state means, for somebody who sees it for the first time. */
const STATE_TEXTS: Record<ReservationLink['state'], string> = {
  active: 'This is the home of the key.',
  moved: 'Sealed: nothing is granted under it any more.',
  pending: 'Decided, not active yet: nothing is granted under it before the first connect.',
  unreachable: 'Its datacenter cannot be reached now.',
  given_up: 'Its datacenter was given up. The next connect gives the key another home.',
};
