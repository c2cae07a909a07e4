import type { StatsOverview } from '@leasehold/api/contract';
import { Link } from '~/ui/link.tsx';
import type { ReactNode } from 'react';
import type { Tone } from '~/ui/text/text.tsx';
import { count, counted, duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { EVENTS_LATE_MS } from './event-lag.ts';
import { windowText } from './windows.ts';
import classes from './overview.module.css';

const FACES = ['key', 'lease', 'environment'] as const;

/** The eight numbers that sum up the system. */
export function Tiles({ stats }: { readonly stats: StatsOverview }) {
  const { faces, drones, totals, eventLag, failingCallbacks } = stats;
  const isLate = eventLag.lagMs > EVENTS_LATE_MS;
  const sum = (field: keyof StatsOverview['faces']['key']): number =>
    FACES.reduce((total, face) => total + faces[face][field], 0);
  const byFace = (field: keyof StatsOverview['faces']['key']): string =>
    [
      counted(faces.key[field], 'key'),
      counted(faces.lease[field], 'lease'),
      `${count(faces.environment[field])} env.`,
    ]
      // A number stays beside what it counts.
      .map((text) => text.replaceAll(' ', '\u00a0'))
      .join(' · ');
  return (
    <div className={classes['tiles']}>
      <Tile label="Held" value={count(sum('held'))} href={routes.keys({ q: 'phase:held' })}>
        {byFace('held')}
      </Tile>
      <Tile
        label="Expiring"
        value={count(sum('expiring'))}
        tone={sum('expiring') > 0 ? 'warn' : 'calm'}
        href={routes.keys({ q: 'phase:expiring' })}
      >
        {byFace('expiring')}
      </Tile>
      <Tile
        label="Contended"
        value={count(sum('contended'))}
        tone={sum('contended') > 0 ? 'info' : 'calm'}
        href={routes.leases({ tab: 'contention' })}
      >
        {counted(sum('waiters'), 'caller waits', 'callers wait')}
      </Tile>
      <Tile
        label="Refused renewals"
        value={count(totals.refusedRenewals)}
        tone={totals.refusedRenewals > 0 ? 'warn' : 'calm'}
        href={routes.events()}
      >
        of {count(totals.renewals + totals.refusedRenewals)} {windowText(stats.windowMinutes)}
      </Tile>
      <Tile
        label="Silent drones"
        value={count(drones.stale)}
        tone={drones.stale > 0 ? 'bad' : 'calm'}
        href={routes.drones()}
      >
        {count(drones.ready)} ready · {count(drones.draining)} draining · {count(drones.lost)} lost
      </Tile>
      <Tile
        label="Reaper lag"
        value={stats.reaperLagMs === 0 ? 'none' : duration(stats.reaperLagMs)}
        tone={stats.reaperLagMs > 5_000 ? 'bad' : 'calm'}
        href={routes.events()}
      >
        {counted(sum('overdue'), 'expiry', 'expiries')} not recorded
      </Tile>
      <Tile
        label="Event lag"
        value={isLate ? duration(eventLag.lagMs) : 'none'}
        tone={isLate ? 'warn' : 'calm'}
        href={routes.events()}
      >
        {isLate ? 'an open transaction holds events back' : 'events are told at once'}
      </Tile>
      <Tile
        label="Failing callbacks"
        value={count(failingCallbacks)}
        tone={failingCallbacks > 0 ? 'warn' : 'calm'}
        href={routes.leases({ tab: 'callbacks' })}
      >
        of expired leases
      </Tile>
    </div>
  );
}

function Tile({
  label,
  value,
  tone = 'calm',
  href,
  children,
}: {
  readonly label: string;
  readonly value: string;
  readonly tone?: Tone;
  readonly href: string;
  readonly children: ReactNode;
}) {
  return (
    <Link href={href} className={classes['tile']} data-tone={tone}>
      <span className="small-print">{label}</span>
      <span className={classes['tile-value']}>{value}</span>
      <span className="small-print">{children}</span>
    </Link>
  );
}
