import { setTimeout as delay } from 'node:timers/promises';
import { toleratedClockRatio, type Ladder } from '@leasehold/keys-core';
import { readKeyLadders } from '@leasehold/keys-core/grants';
import {
  connectionProblems,
  migrationStatus,
  poolerProblem,
  readDatabaseSettings,
  type Store,
} from '@leasehold/keys-core/postgres';
import { connectionOf } from '@leasehold/service-kit';
import { pathOfPart } from '../apps.ts';
import type { CliConfig } from '../config.ts';
import { withStore } from '../database.ts';
import { unsure, well, wrong, type Finding } from './finding.ts';

const POSTGRES_VERSION_MIN = 150_000;
/** For how long the database's clock is compared with this machine's monotonic one. */
const CLOCK_WATCH_MS = 1_000;
const ROUND_TRIPS = 5;
/** Above this a renewal takes a large part of the time in which it can be retried. */
const ROUND_TRIP_MS_MAX = 250;

/** Checks the database: its version, durability, privileges, migrations, ladders and clock. */
export async function examineDatabase(databaseUrl: string, config: CliConfig): Promise<Finding[]> {
  const pooler = await poolerProblem(databaseUrl);
  if (pooler !== undefined) {
    return [wrong('database', pooler, 'Correct this. Until then a controller refuses to start.')];
  }
  return withStore(databaseUrl, config.datacenter, async (store) => [
    ...(await settingsFindings(store, connectionOf(databaseUrl).schema)),
    await migrationFinding(databaseUrl),
    ...ladderFindings(await readKeyLadders(store.general)),
    ...(await clockFindings(store, config)),
  ]);
}

async function settingsFindings(store: Store, schema: string): Promise<Finding[]> {
  const settings = await readDatabaseSettings(store.general);
  const findings = [
    settings.versionNumber < POSTGRES_VERSION_MIN
      ? wrong(
          'database',
          `PostgreSQL ${settings.version}`,
          'Leasehold needs PostgreSQL 15 or later.',
        )
      : well('database', `PostgreSQL ${settings.version} answers`),
    settings.synchronousCommit === 'off' || settings.synchronousCommit === 'local'
      ? wrong(
          'durability',
          `synchronous_commit is ${settings.synchronousCommit}: a crash may lose a grant that was answered`,
          'Set synchronous_commit to on; until then a controller refuses to start.',
        )
      : well('durability', `synchronous_commit is ${settings.synchronousCommit}`),
  ];
  if (settings.isReadOnly) {
    findings.push(
      wrong(
        'writes',
        'the database is read-only: it is a standby, or default_transaction_read_only is on',
        'Name the primary in DATABASE_URL, or reset the setting; until then no controller is ready.',
      ),
    );
  }
  const problems = connectionProblems(settings, schema);
  findings.push(
    problems.length === 0
      ? well('schema', `"${schema}", with every privilege that a controller needs`)
      : wrong(
          'schema',
          problems.join('; '),
          'Correct this. Until then a controller refuses to start.',
        ),
  );
  if (settings.standbyCount > 0 && settings.synchronousStandbyNames === '') {
    findings.push(
      unsure(
        'standby',
        `${String(settings.standbyCount)} standby servers, none of them synchronous`,
        'A failover may lose grants and renewals; set synchronous_standby_names.',
      ),
    );
  }
  return findings;
}

async function migrationFinding(databaseUrl: string): Promise<Finding> {
  const status = await migrationStatus(databaseUrl, pathOfPart('migrations'));
  if (status.newer.length > 0) {
    return wrong(
      'migrations',
      `a newer version has applied ${status.newer.join(', ')}`,
      'Use that version: a controller of this version refuses to start.',
    );
  }
  if (status.changed.length > 0) {
    return wrong(
      'migrations',
      `applied from files that differ from those of this version: ${status.changed.join(', ')}`,
      'Use the migration files of the release unchanged.',
    );
  }
  return status.pending.length === 0
    ? well('migrations', `${String(status.applied.length)} applied, none pending`)
    : wrong('migrations', `not applied: ${status.pending.join(', ')}`, 'Run `leasehold migrate`.');
}

/** Controllers that give keys different ladders are safe, but a mistake. */
export function ladderFindings(ladders: readonly Ladder[]): Finding[] {
  if (ladders.length < 2) return [];
  const texts = ladders.map(({ ttlMs }) => `${String(ttlMs / 1_000)} s`);
  return [
    unsure(
      'ladders',
      `controllers give keys different ladders, which expire after ${texts.join(' and ')}`,
      'Start them with the same LEASEHOLD_PRESET and LEASEHOLD_KEY_*_MS. Each grant keeps its own until then.',
    ),
  ];
}

async function clockFindings(store: Store, config: CliConfig): Promise<Finding[]> {
  const first = await readClock(store);
  await delay(CLOCK_WATCH_MS);
  const second = await readClock(store);
  const driftMs = second.databaseMs - first.databaseMs - (second.localMs - first.localMs);
  // Where in its round trip a reading was taken is not known.
  const boundMs = (first.roundTripMs + second.roundTripMs) / 2;
  const allowedMs = boundMs + CLOCK_WATCH_MS * (toleratedClockRatio(config.ladder) - 1);
  const drift = `${driftMs.toFixed(1)} ms in ${String(CLOCK_WATCH_MS)} ms, known to ±${boundMs.toFixed(1)} ms`;
  return [
    second.roundTripMs > ROUND_TRIP_MS_MAX
      ? unsure(
          'round trip',
          `${second.roundTripMs.toFixed(1)} ms to the database`,
          'Renewals may be late: move controllers closer to it, or use a longer ladder.',
        )
      : well('round trip', `${second.roundTripMs.toFixed(1)} ms to the database`),
    Math.abs(driftMs) > allowedMs
      ? wrong(
          'clock',
          `the database's clock and this machine's clock drifted apart by ${drift}`,
          'The clock of the database must be slewed, never stepped: look at its time service.',
        )
      : well('clock', `the database's clock and this machine's clock drifted apart by ${drift}`),
  ];
}

interface ClockReading {
  readonly databaseMs: number;
  readonly localMs: number;
  readonly roundTripMs: number;
}

/** The reading with the shortest of a few round trips; it counts as made in the middle of that. */
async function readClock(store: Store): Promise<ClockReading> {
  const readings: ClockReading[] = [];
  for (let tries = 0; tries < ROUND_TRIPS; tries += 1) {
    const sentMs = performance.now();
    const rows = await store.general.$queryRaw<{ databaseMs: number }[]>`
      select (extract(epoch from clock_timestamp()) * 1000)::float8 as "databaseMs"`;
    const roundTripMs = performance.now() - sentMs;
    const databaseMs = rows[0]?.databaseMs ?? Number.NaN;
    readings.push({ databaseMs, localMs: sentMs + roundTripMs / 2, roundTripMs });
  }
  return readings.reduce((best, next) => (next.roundTripMs < best.roundTripMs ? next : best));
}
