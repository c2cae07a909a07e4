import { expect, test } from 'vitest';
import type { EventLag, HealthConcern, StatsOverview } from '@leasehold/api/contract';
import { concernText, remedyOf } from './overview-texts.ts';

const FACE = { held: 0, expiring: 0, overdue: 0, contended: 0, waiters: 0 };
const STATS = {
  faces: { key: FACE, lease: { ...FACE, overdue: 1 }, environment: FACE },
  holdOff: { remainingMs: 42_000 },
  clockJump: { jumpMs: -3_600_000 },
  health: { judgedMs: 300_000, renewals: 4_943, refused: 57 },
} as StatsOverview;

test.each<[Partial<HealthConcern>, string, string | null]>([
  [{ kind: 'hold_off' }, 'The database was restored: no new grants for 42 s', null],
  [{ kind: 'clock_jump' }, 'The database’s clock stepped back by 1 h', null],
  [{ kind: 'reaper_late' }, 'Expiries are recorded late', '/leases?q=is%3Aoverdue+own%3Ano'],
  [{ kind: 'events_late' }, 'Events are late', null],
  [{ kind: 'no_drone_ready' }, 'No drone can take a new backend', '/drones'],
  [{ kind: 'drone_unreachable', droneId: 'fra-2' }, 'fra-2 unreachable', '/drones/detail?id=fra-2'],
  [{ kind: 'drone_unreachable', count: 40 }, '40 drones unreachable', '/drones?status=unreachable'],
  [{ kind: 'drone_lost', count: 9 }, '9 drones lost', '/drones?status=lost'],
  [
    { kind: 'renewals_refused', count: 57 },
    '57 of 5,000 renewals refused in the last 5 minutes',
    '/events?kinds=renewal_refused&range=5m',
  ],
  [
    { kind: 'callbacks_failing', count: 2 },
    '2 callbacks of expired leases failing',
    '/leases?tab=callbacks',
  ],
  [{ kind: 'expiring', face: 'key', count: 1 }, '1 key expiring', '/keys?q=phase%3Aexpiring'],
  [
    { kind: 'expiring', face: 'lease', count: 3 },
    '3 leases expiring',
    '/leases?q=phase%3Aexpiring+own%3Ano',
  ],
])('%j', (change, text, href) => {
  const concern = { tone: 'bad', since: null, count: 1, droneId: null, face: null, ...change };

  expect(concernText(concern as HealthConcern, STATS)).toEqual({ text, href });
});

function culprit(
  change: Partial<NonNullable<EventLag['culprit']>>,
): NonNullable<EventLag['culprit']> {
  return {
    pid: null,
    applicationName: null,
    database: null,
    preparedAs: null,
    ageMs: null,
    state: null,
    queryAgeMs: null,
    ...change,
  };
}

test.each([
  ['a session is ended by its process', { pid: 4_711 }, 'select pg_terminate_backend(4711);'],
  [
    'a prepared transaction is undone by its name',
    { preparedAs: "o'neil", database: 'shop' },
    "rollback prepared 'o''neil';",
  ],
  ['one that Leasehold may not see is looked for', {}, 'order by xact_start limit 1;'],
])('%s', (_promise, change, sql) => {
  expect(remedyOf(culprit(change)).sql).toContain(sql);
});
