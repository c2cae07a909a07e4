import { type ComponentProps, createContext, memo, type ReactNode, useContext } from 'react';
import type { StatsOverview } from '@leasehold/api/contract';
import { type Face, FACES } from '@leasehold/keys-core';
import { count, duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { DRONE_LOOKS } from '~/resources/looks.tsx';
import { Link, type Tone } from '~/ui/text.tsx';
import { EVENTS_LATE_MS, eventsHref, FACE_NAMES, listOf, windowText } from './overview-texts.ts';
import classes from './overview.module.css';

/** The numbers that sum up the system. Each one is a link to exactly the rows that it counts. */
export const Tiles = memo(function Tiles({ stats }: { readonly stats: StatsOverview }) {
  const { faces, drones, totals, eventLag, failingCallbacks, reaperLagMs, windowMinutes } = stats;
  const isLate = eventLag.lagMs > EVENTS_LATE_MS;
  const waiting = FACES.reduce((sum, face) => sum + faces[face].waiters, 0);
  return (
    <section className={classes['tiles']} aria-label="Now">
      <Tile label="Held">
        <FaceFigures faces={faces} field="held" what="held" search="phase:held" />
      </Tile>
      <Tile label="Expiring">
        <FaceFigures
          {...{ faces, field: 'expiring', what: 'expiring', search: 'phase:expiring' }}
          tone="warn"
        />
      </Tile>
      <Tile
        label="Waited for"
        below={
          <RowsLink href={routes.leases({ tab: 'waits' })}>
            {count(waiting)} waiting, and for whom
          </RowsLink>
        }
      >
        <FaceFigures
          {...{ faces, field: 'contended', what: 'waited for', search: 'is:waited' }}
          tone="info"
        />
      </Tile>
      <Tile label="Drones">
        <Figure value={drones.ready} unit="ready" href={routes.drones({ status: 'ready' })} />
        <Figure
          {...{ value: drones.draining, unit: 'draining' }}
          href={routes.drones({ status: 'draining' })}
        />
        {drones.stopped > 0 && (
          <Figure
            {...{ value: drones.stopped, unit: 'stopped' }}
            href={routes.drones({ status: 'stopped' })}
          />
        )}
        <Figure
          {...{ value: drones.stale, unit: 'unreachable', tone: DRONE_LOOKS.unreachable.tone }}
          href={routes.drones({ status: 'unreachable' })}
        />
        <Figure
          {...{ value: drones.lost, unit: 'lost', tone: DRONE_LOOKS.lost.tone }}
          href={routes.drones({ status: 'lost' })}
        />
      </Tile>
      <Tile
        label="Refused renewals"
        below={`of ${count(totals.renewals + totals.refusedRenewals)} ${windowText(windowMinutes)}`}
      >
        <Figure
          value={totals.refusedRenewals}
          unit={windowText(windowMinutes)}
          isUnitHidden
          href={eventsHref(['renewal_refused'], windowMinutes)}
        />
      </Tile>
      <Tile
        label="Expiries not recorded"
        below={
          reaperLagMs === 0 ? 'the reaper keeps up' : `the oldest is ${duration(reaperLagMs)} late`
        }
      >
        <FaceFigures {...{ faces, field: 'overdue', what: 'not recorded', search: 'is:overdue' }} />
      </Tile>
      <Tile
        label="Event lag"
        below={isLate ? 'an open transaction holds events back' : 'events are delivered at once'}
      >
        <span className={classes['figure']} data-tone={isLate ? 'warn' : 'calm'}>
          <strong>{isLate ? duration(eventLag.lagMs) : 'none'}</strong>
        </span>
      </Tile>
      <Tile label="Failing callbacks" below="of expired leases">
        <Figure
          {...{ value: failingCallbacks, tone: 'warn' }}
          unit={failingCallbacks === 1 ? 'failing callback' : 'failing callbacks'}
          isUnitHidden
          href={routes.leases({ tab: 'callbacks' })}
        />
      </Tile>
    </section>
  );
});

/** One number for each face. */
function FaceFigures({
  faces,
  field,
  what,
  search,
  tone = 'calm',
}: {
  readonly faces: StatsOverview['faces'];
  readonly field: Exclude<keyof StatsOverview['faces'][Face], 'waiters'>;
  /** What is so of them, for the names of the links. */
  readonly what: string;
  readonly search: string;
  readonly tone?: Tone;
}) {
  return FACES.map((face) => {
    const value = faces[face][field];
    const [one, many] = FACE_NAMES[face];
    return (
      <Figure
        key={face}
        {...{ value, tone, what }}
        unit={value === 1 ? one : many}
        href={listOf(face, search)}
      />
    );
  });
}

function Figure({
  value,
  unit,
  what,
  href,
  tone = 'calm',
  isUnitHidden = false,
}: {
  readonly value: number;
  readonly unit: string;
  readonly what?: string;
  readonly href: string;
  /** For any number but 0. */
  readonly tone?: Tone;
  readonly isUnitHidden?: boolean;
}) {
  const name = `${count(value)} ${unit}`;
  return (
    <RowsLink
      href={href}
      className={classes['figure']}
      data-tone={value === 0 ? 'calm' : tone}
      data-none={value === 0 || undefined}
      aria-label={what === undefined ? name : `${name}, ${what}`}
    >
      <strong>{count(value)}</strong>
      {isUnitHidden ? null : <span> {unit}</span>}
    </RowsLink>
  );
}

function Tile({
  label,
  below,
  children,
}: {
  readonly label: string;
  readonly below?: ReactNode;
  readonly children: ReactNode;
}) {
  return (
    <div className={classes['tile']} role="group" aria-label={label}>
      <span className="small-print">{label}</span>
      <div className={classes['figures']}>{children}</div>
      {below === undefined ? null : <span className="small-print">{below}</span>}
    </div>
  );
}

/**
 * The datacenter whose numbers the overview shows; undefined where it is the only one. A list shows the rows of all
 * datacenters unless its address names one.
 */
export const OwnDatacenter = createContext<string | undefined>(undefined);

/** A link from a number to the rows that it counts: those of this datacenter alone. */
export function RowsLink({
  href,
  ...rest
}: ComponentProps<typeof Link> & { readonly href: string }) {
  const datacenter = useContext(OwnDatacenter);
  return (
    <Link href={datacenter === undefined ? href : withDatacenter(href, datacenter)} {...rest} />
  );
}

function withDatacenter(href: string, datacenter: string): string {
  const [path = '', params] = href.split('?');
  const named = new URLSearchParams(params);
  named.set('datacenter', datacenter);
  return `${path}?${named.toString()}`;
}
