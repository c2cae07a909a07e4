/** Every sign of trouble in words, worst first. Pure. */
import type { StatsOverview } from '@leasehold/api/contract';
import { counted, duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { EVENTS_LATE_MS } from './event-lag.ts';

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
  const all = [...ofDatabase(stats), ...ofFleet(stats), ...ofGrants(stats)];
  return [...all.filter(({ tone }) => tone === 'bad'), ...all.filter(({ tone }) => tone !== 'bad')];
}

function ofDatabase({ holdOff, clockJump, reaperLagMs, eventLag }: StatsOverview): Concern[] {
  const expired = routes.events({ kinds: 'expired' });
  return those(
    holdOff != null &&
      bad(
        `the database was restored: no new grants for ${duration(holdOff.remainingMs)}`,
        routes.events(),
      ),
    clockJump != null &&
      clockJump.remainingMs > 0 &&
      bad(
        `the database’s clock stepped ${clockJump.jumpMs > 0 ? 'forward' : 'back'} by ${duration(Math.abs(clockJump.jumpMs))}`,
        expired,
      ),
    reaperLagMs > REAPER_LATE_MS && bad(`the reaper is ${duration(reaperLagMs)} late`, expired),
    eventLag.lagMs > EVENTS_LATE_MS &&
      warn(`events are ${duration(eventLag.lagMs)} late`, routes.overview),
    clockJump?.remainingMs === 0 && warn('the database’s clock has stepped lately', expired),
  );
}

function ofFleet({ drones }: StatsOverview): Concern[] {
  return those(
    drones.total > 0 &&
      drones.ready === 0 &&
      bad('no drone can take a new backend', routes.drones()),
    drones.stale > 0 &&
      bad(`${counted(drones.stale, 'drone')} silent`, routes.drones({ status: 'unreachable' })),
    drones.lost > 0 &&
      warn(`${counted(drones.lost, 'drone')} lost`, routes.drones({ status: 'lost' })),
  );
}

function ofGrants({ totals, faces, failingCallbacks }: StatsOverview): Concern[] {
  const { refusedRenewals } = totals;
  const expiring = faces.key.expiring + faces.lease.expiring + faces.environment.expiring;
  return those(
    failingCallbacks > 0 &&
      warn(
        `${counted(failingCallbacks, 'callback')} of expired leases failing`,
        routes.leases({ tab: 'callbacks' }),
      ),
    refusedRenewals > 0 &&
      warn(
        `${counted(refusedRenewals, 'renewal')} refused`,
        routes.events({ kinds: 'renewal_blocked,revoked,expired' }),
      ),
    expiring > 0 && warn(`${counted(expiring, 'grant')} running out`, expiringHref(faces)),
  );
}

function those(...concerns: (Concern | false)[]): Concern[] {
  return concerns.filter((concern) => concern !== false);
}

const bad = (text: string, href: string): Concern => ({ tone: 'bad', text, href });
const warn = (text: string, href: string): Concern => ({ tone: 'warn', text, href });

function expiringHref(faces: StatsOverview['faces']): string {
  if (faces.key.expiring > 0) return routes.keys({ q: 'phase:expiring' });
  return faces.lease.expiring > 0
    ? routes.leases({ q: 'phase:expiring' })
    : routes.environments({ q: 'phase:expiring' });
}
