/** What needs attention in words, and the page that lists exactly what is counted. Pure. */
import type { EventLag, HealthConcern, StatsOverview } from '@leasehold/api/contract';
import type { Face } from '@leasehold/keys-core';
import { count, countText, duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';

/** The time spans that the overview can show. */
export const WINDOWS = [
  { minutes: 15, label: '15 min', words: '15 minutes' },
  { minutes: 60, label: '1 h', words: 'hour' },
  { minutes: 360, label: '6 h', words: '6 hours' },
  { minutes: 1_440, label: '24 h', words: '24 hours' },
] as const;

export const DEFAULT_WINDOW_MINUTES = 60;

/** `in the last hour`, to be read after a number. */
export function windowText(minutes: number): string {
  const known = WINDOWS.find((window) => window.minutes === minutes);
  return `in the last ${known?.words ?? `${String(minutes)} minutes`}`;
}

// Addresses of exactly the events that a number of the overview counts.

/** The events of these kinds, of the last minutes. */
export function eventsHref(kinds: readonly string[], minutes: number): string {
  return routes.events({ kinds: kinds.join(','), range: `${String(minutes)}m` });
}

// Addresses of the lists that a number of one face counts.

/** One, and many of them. */
export const FACE_NAMES: Readonly<Record<Face, readonly [one: string, many: string]>> = {
  key: ['key', 'keys'],
  lease: ['lease', 'leases'],
  environment: ['environment', 'environments'],
};

/** The list of a face with this search. Leasehold's own leases are counted nowhere. */
export function listOf(face: Face, q: string): string {
  if (face === 'key') return routes.keys({ q });
  return face === 'lease' ? routes.leases({ q: `${q} own:no` }) : routes.environments({ q });
}

interface ConcernText {
  readonly text: string;
  /** Null where the page itself shows more about it. */
  readonly href: string | null;
}

const MINUTE_MS = 60_000;
/** A key that has failed again and again within this time is a concern. */
const CRASH_LOOP_MINUTES = 10;

export function concernText(concern: HealthConcern, stats: StatsOverview): ConcernText {
  return TEXTS[concern.kind](concern, stats);
}

const TEXTS: Readonly<
  Record<HealthConcern['kind'], (concern: HealthConcern, stats: StatsOverview) => ConcernText>
> = {
  hold_off: (_concern, { holdOff }) => ({
    text: `The database was restored: no new grants for ${duration(holdOff?.remainingMs ?? 0)}`,
    href: null,
  }),
  clock_jump: (_concern, { clockJump }) => ({
    text: `The database’s clock stepped ${(clockJump?.jumpMs ?? 0) < 0 ? 'back' : 'forward'} by ${duration(Math.abs(clockJump?.jumpMs ?? 0))}`,
    href: null,
  }),
  reaper_late: (_concern, { faces }) => {
    const face = FACES.find((one) => faces[one].overdue > 0) ?? 'lease';
    return { text: 'Expiries are recorded late', href: listOf(face, 'is:overdue') };
  },
  events_late: () => ({ text: 'Events are late', href: null }),
  no_drone_ready: () => ({ text: 'No drone can take a new backend', href: routes.drones() }),
  drone_unreachable: (concern) => ofDrones(concern, 'unreachable'),
  drone_lost: (concern) => ofDrones(concern, 'lost'),
  renewals_refused: ({ count: refused }, { health }) => ({
    text: `${count(refused)} of ${countText(refused + health.renewals, 'renewal')} refused ${windowText(health.judgedMs / MINUTE_MS)}`,
    href: eventsHref(['renewal_refused'], health.judgedMs / MINUTE_MS),
  }),
  crash_loops: ({ count: failing }) => ({
    text: `${countText(failing, 'key')} whose backends fail one after another`,
    href: eventsHref(['crash_loop'], CRASH_LOOP_MINUTES),
  }),
  callbacks_failing: ({ count: failing }) => ({
    text: `${countText(failing, 'callback')} of expired leases failing`,
    href: routes.leases({ tab: 'callbacks' }),
  }),
  expiring: ({ count: expiring, face }) => {
    const [one, many] = FACE_NAMES[face ?? 'key'];
    return {
      text: `${countText(expiring, one, many)} expiring`,
      href: listOf(face ?? 'key', 'phase:expiring'),
    };
  },
};

const FACES = ['key', 'lease', 'environment'] as const;

function ofDrones(
  { droneId, count: of }: HealthConcern,
  status: 'unreachable' | 'lost',
): ConcernText {
  return droneId === null
    ? { text: `${countText(of, 'drone')} ${status}`, href: routes.drones({ status }) }
    : { text: `${droneId} ${status}`, href: routes.drone(droneId) };
}

// What holds the events back, and what ends it.

/** Transactions of Leasehold end within a second or two; from this lag on somebody should look. */
export const EVENTS_LATE_MS = 5_000;

type Culprit = NonNullable<EventLag['culprit']>;

interface Remedy {
  readonly text: string;
  /** For psql. */
  readonly sql: string;
}

/** How an operator ends the transaction. */
export function remedyOf({ pid, preparedAs, database }: Culprit): Remedy {
  if (preparedAs !== null) {
    return {
      text: `Ask its owner whether it is to be committed. Otherwise undo it, in the database ${database ?? ''}:`,
      sql: `rollback prepared ${quote(preparedAs)};`,
    };
  }
  if (pid === null) {
    return {
      text: 'Leasehold’s database user may not see which one. As a user that may (pg_monitor), find the oldest:',
      sql: 'select pid, datname, application_name, state, xact_start, query_start from pg_stat_activity where backend_xid is not null order by xact_start limit 1;',
    };
  }
  return {
    text: 'See what it does, and end it unless it must continue. Its work is rolled back:',
    sql: `select query from pg_stat_activity where pid = ${String(pid)};\nselect pg_terminate_backend(${String(pid)});`,
  };
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
