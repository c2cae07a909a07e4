/** Whether the migrations since the previous version are safe while that version runs. */
import path from 'node:path';
import { migrate, planMigration } from '@leasehold/keys-core/postgres';
import { openEmptyDatabase } from '../empty-database.ts';
import { buildPrevious } from '../previous/build-previous.ts';
import type { Accepted } from './accepted.ts';
import { brokenReliances, reliancesOf } from './catalog.ts';
import { blockingStatements } from './locks.ts';

/** Every problem as a line. An acceptance that nothing needs is one too. */
export async function examineMigrations(
  folder: string,
  accepted: readonly Accepted[],
): Promise<string[]> {
  const previous = await buildPrevious();
  await using database = await openEmptyDatabase();
  const { url } = database;
  await migrate(url, previous.migrations);
  const { planned } = await planMigration(url, folder);
  const before = await reliancesOf(url);
  await migrate(url, folder);
  const broken = brokenReliances(before, await reliancesOf(url));
  const names = new Set(planned.map(({ name }) => name));
  const found = await blockingStatements(
    [...names].map((name) => path.join(folder, name, 'migration.sql')),
  );
  const ofNow = accepted.filter(({ migration }) => names.has(migration));
  const isAccepted = (problem: string, migration?: string): boolean =>
    ofNow.some((one) => one.problem === problem && (migration ?? one.migration) === one.migration);
  return [
    ...planned.flatMap(({ name, sql, olderMayStart }) => headerProblems(name, sql, olderMayStart)),
    ...broken.filter((problem) => !isAccepted(problem)),
    ...found.filter(({ rule, migration }) => !isAccepted(rule, migration)).map(({ text }) => text),
    ...ofNow
      .filter(
        ({ migration, problem }) =>
          !broken.includes(problem) &&
          !found.some((one) => one.migration === migration && one.rule === problem),
      )
      .map(
        ({ migration, problem }) => `nothing needs the acceptance of ${problem} in ${migration}`,
      ),
  ];
}

function headerProblems(name: string, sql: string, olderMayStart: boolean): string[] {
  return [
    ...(olderMayStart ? [] : [`${name}: the line "-- older versions may start" is missing`]),
    ...(sql.includes('squawk-ignore')
      ? [`${name}: exceptions are in tools/upgrades/migrations/accepted.ts, with their reasons`]
      : []),
  ];
}
