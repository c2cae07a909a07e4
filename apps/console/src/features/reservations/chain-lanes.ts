/** Where each reservation of a chain is drawn. Pure. */
import type { ReservationLink } from './reservation-search.ts';

/** Of a longer chain only the newest are drawn; the list below has all. */
export const DRAWN_MAX = 7;

export interface DrawnLink {
  readonly link: Pick<ReservationLink, 'reservationId' | 'datacenter' | 'state'>;
  /** Its place in the chain, from 1. */
  readonly place: number;
  /** From 0, in the order of time. */
  readonly column: number;
  /** The lane of its datacenter, from 0. */
  readonly lane: number;
}

interface ChainDrawing {
  readonly lanes: readonly string[];
  readonly links: readonly DrawnLink[];
  /** How many reservations come before the drawn ones. */
  readonly hiddenCount: number;
}

/** A lane for each datacenter: first those of the chain in its order, then those without a reservation. */
export function chainDrawing(
  links: readonly DrawnLink['link'][],
  datacenters: readonly string[],
): ChainDrawing {
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
