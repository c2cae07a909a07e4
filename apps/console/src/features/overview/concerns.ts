/** Every sign of trouble in words, worst first. Pure. */
import type { StatsOverview } from '@leasehold/api/contract';
import { counted, duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';

interface Concern {
  readonly tone: 'warn' | 'bad';
  readonly text: string;
  /** The page that shows more about it. */
  readonly href: string;
}

/** The reaper runs once a second; from this lag on it is late. */
const REAPER_LATE_MS = 5_000;

/** What an operator should look at, according to the statistics. */
export function concernsOf(stats: StatsOverview): Concern[] {
  const { drones, totals, faces, holdOff } = stats;
  const concerns: (Concern & { isThere: boolean })[] = [
    {
      isThere: holdOff != null,
      tone: 'bad',
      text: `the database was restored: no new grants for ${duration(holdOff?.remainingMs ?? 0)}`,
      href: routes.events(),
    },
    {
      isThere: drones.total > 0 && drones.ready === 0,
      tone: 'bad',
      text: 'no drone can take a new backend',
      href: routes.drones(),
    },
    {
      isThere: drones.stale > 0,
      tone: 'bad',
      text: `${counted(drones.stale, 'drone')} silent`,
      href: routes.drones({ q: 'status:unreachable' }),
    },
    {
      isThere: stats.reaperLagMs > REAPER_LATE_MS,
      tone: 'bad',
      text: `the reaper is ${duration(stats.reaperLagMs)} late`,
      href: routes.events({ kinds: 'expired' }),
    },
    {
      isThere: totals.refusedRenewals > 0,
      tone: 'warn',
      text: `${counted(totals.refusedRenewals, 'renewal')} refused`,
      href: routes.events({ kinds: 'renewal_blocked,revoked,expired' }),
    },
    {
      isThere: faces.key.expiring + faces.lease.expiring + faces.environment.expiring > 0,
      tone: 'warn',
      text: `${counted(faces.key.expiring + faces.lease.expiring + faces.environment.expiring, 'grant')} running out`,
      href: expiringHref(faces),
    },
    {
      isThere: drones.lost > 0,
      tone: 'warn',
      text: `${counted(drones.lost, 'drone')} lost`,
      href: routes.drones({ q: 'status:lost' }),
    },
  ];
  return concerns
    .filter(({ isThere }) => isThere)
    .map(({ tone, text, href }) => ({ tone, text, href }));
}

function expiringHref(faces: StatsOverview['faces']): string {
  if (faces.key.expiring > 0) return routes.keys({ q: 'phase:expiring' });
  return faces.lease.expiring > 0
    ? routes.leases({ q: 'phase:expiring' })
    : routes.environments({ q: 'phase:expiring' });
}
