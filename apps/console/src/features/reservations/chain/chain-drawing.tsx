import type { CSSProperties } from 'react';
import { chainDrawing, type DrawnLink } from './chain-lanes.ts';
import type { ReservationLink } from '../reservation-item.ts';
import { RESERVATION_LOOKS } from '../reservation-looks.ts';
import classes from './chain.module.css';

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
