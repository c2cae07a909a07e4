/** What an operator should look at now. It depends on the present alone, not on the window that is shown. Pure. */
import type { DroneGroup } from '../fleet/index.ts';
import type { DroneStatus } from '../kernel/drones.ts';
import { type Face, FACES } from '../kernel/resource.ts';
import type { CrashLoops } from '../keys/index.ts';
import type { HealthConcern, StatsOverview } from './stats-types.ts';

/** The time over which refusals are judged, and the shorter one that shows that they still come. */
export const RENEWALS_JUDGED_MS = 300_000;
export const RENEWALS_LATELY_MS = 60_000;
/** From this share of all renewals on, in both times, refused renewals need attention. */
export const REFUSED_SHARE_MIN = 0.01;
/** From this share on they are the first thing to look at. */
const REFUSED_SHARE_BAD = 0.1;
/** The reaper runs once a second; from this lag on it is late. */
const REAPER_LATE_MS = 5_000;
/** Transactions of Leasehold end within a second or two; from this lag on events are late. */
export const EVENTS_LATE_MS = 5_000;

/** The renewals of the last minutes, of all faces. */
export interface RecentRenewals {
  /** Within {@link RENEWALS_JUDGED_MS}. */
  readonly renewals: number;
  readonly refused: number;
  /** Within {@link RENEWALS_LATELY_MS}. */
  readonly renewalsLately: number;
  readonly refusedLately: number;
  /** Since when too many are refused, as epoch milliseconds. */
  readonly since: number | null;
}

/** The present, as far as it is judged. Instants are epoch milliseconds of the database. */
export interface Present extends Pick<
  StatsOverview,
  'holdOff' | 'clockJump' | 'reaperLagMs' | 'eventLag' | 'failingCallbacks'
> {
  readonly nowMs: number;
  readonly drones: Record<DroneStatus, DroneGroup>;
  readonly renewals: RecentRenewals;
  readonly expiring: Record<Face, { readonly count: number; readonly since: number | null }>;
  readonly callbacksSince: number | null;
  readonly crashLoops: CrashLoops;
}

/** Everything that needs attention, the worst first; nothing when the system is healthy. */
export function concernsOf(present: Present): HealthConcern[] {
  const all = [...ofDatabase(present), ...ofFleet(present), ...ofGrants(present)];
  return [...all.filter(({ tone }) => tone === 'bad'), ...all.filter(({ tone }) => tone !== 'bad')];
}

function ofDatabase(present: Present): HealthConcern[] {
  const { holdOff, clockJump, reaperLagMs, eventLag, nowMs } = present;
  const concerns: HealthConcern[] = [];
  if (holdOff !== null) concerns.push(bad('hold_off', holdOff.since));
  if (clockJump !== null && clockJump.remainingMs > 0) {
    concerns.push(bad('clock_jump', clockJump.at));
  }
  if (reaperLagMs > REAPER_LATE_MS) concerns.push(bad('reaper_late', nowMs - reaperLagMs));
  if (eventLag.lagMs > EVENTS_LATE_MS) {
    concerns.push(warn('events_late', nowMs - eventLag.lagMs));
  }
  return concerns;
}

function ofFleet({ drones, crashLoops }: Present): HealthConcern[] {
  const { unreachable, lost } = drones;
  const concerns: HealthConcern[] = [];
  const total = Object.values(drones).reduce((sum, { count }) => sum + count, 0);
  if (total > 0 && drones.ready.count === 0) concerns.push(bad('no_drone_ready', null, total));
  concerns.push(...ofDrones(unreachable, 'drone_unreachable', 'bad'));
  concerns.push(...ofDrones(lost, 'drone_lost', 'warn'));
  if (crashLoops.count > 0) {
    concerns.push(bad('crash_loops', crashLoops.since, crashLoops.count));
  }
  return concerns;
}

/** Each by its name while they are few; else one concern, since the first of them. */
function ofDrones(
  { count, named }: DroneGroup,
  kind: HealthConcern['kind'],
  tone: HealthConcern['tone'],
): HealthConcern[] {
  if (count <= named.length) {
    return named.map(({ droneId, since }) => ({ ...concern(kind, tone, since), droneId }));
  }
  return [concern(kind, tone, named[0]?.since ?? null, count)];
}

function ofGrants(present: Present): HealthConcern[] {
  const { renewals, expiring, failingCallbacks, callbacksSince } = present;
  const concerns: HealthConcern[] = [];
  const share = Math.min(
    shareOf(renewals.refused, renewals.renewals),
    shareOf(renewals.refusedLately, renewals.renewalsLately),
  );
  if (share >= REFUSED_SHARE_MIN) {
    const tone = share >= REFUSED_SHARE_BAD ? 'bad' : 'warn';
    concerns.push(concern('renewals_refused', tone, renewals.since, renewals.refused));
  }
  if (failingCallbacks > 0) {
    concerns.push(warn('callbacks_failing', callbacksSince, failingCallbacks));
  }
  for (const face of FACES) {
    const { count, since } = expiring[face];
    if (count > 0) concerns.push({ ...warn('expiring', since, count), face });
  }
  return concerns;
}

function shareOf(refused: number, renewed: number): number {
  return refused === 0 ? 0 : refused / (refused + renewed);
}

function concern(
  kind: HealthConcern['kind'],
  tone: HealthConcern['tone'],
  since: number | string | null,
  count = 1,
): HealthConcern {
  const instant = typeof since === 'number' ? new Date(since).toISOString() : since;
  return { kind, tone, since: instant, count, droneId: null, face: null };
}

function bad(kind: HealthConcern['kind'], since: number | string | null, count = 1) {
  return concern(kind, 'bad', since, count);
}

function warn(kind: HealthConcern['kind'], since: number | string | null, count = 1) {
  return concern(kind, 'warn', since, count);
}
