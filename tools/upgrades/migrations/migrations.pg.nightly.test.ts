import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findMigrationsDir } from '@leasehold/keys-core/postgres';
import { ACCEPTED } from './accepted.ts';
import { examineMigrations } from './examine.ts';

const LATE = '29990101000000_late';

/** The migrations of this version, and one more. */
async function withMigration(sql: string): Promise<string> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-migrations-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await cp(findMigrationsDir(), folder, { recursive: true });
  await mkdir(path.join(folder, LATE));
  await writeFile(path.join(folder, LATE, 'migration.sql'), sql);
  return folder;
}

test('every migration since the previous version is safe while that version runs, and it may be started again afterwards', async () => {
  expect(await examineMigrations(findMigrationsDir(), ACCEPTED)).toEqual([]);
});

test('a migration that adds tables, columns that may be null and functions is safe', async () => {
  const folder = await withMigration(`-- A test.
-- older versions may start
create table note (id bigint primary key, text text not null unique);
alter table drone add column colour text, add column size bigint not null default 0;
create function twice(n bigint) returns bigint language sql immutable return 2 * n;
`);

  expect(await examineMigrations(folder, ACCEPTED)).toEqual([]);
});

test('a migration that breaks or blocks the previous version is refused, with each reason', async () => {
  const folder = await withMigration(`-- A test.
alter table drone drop column isolation;
alter table reservation rename to home;
alter table bulk add column owner text not null;
alter table audit alter column id type numeric;
alter table lease add constraint short check (length(name) < 10);
create unique index lease_name_idx on lease (name);
drop function leasehold_assert_held(uuid, bigint);
`);

  const problems = await examineMigrations(folder, []);

  for (const part of [
    `${LATE}: the line "-- older versions may start" is missing`,
    'gone or changed: column drone.isolation jsonb',
    'gone or changed: column reservation.move_to text',
    'new rule for a table of the previous version: column bulk.owner text not null',
    'gone or changed: column audit.id bigint not null',
    'new rule for a table of the previous version: constraint of lease: CHECK',
    'new rule for a table of the previous version: CREATE UNIQUE INDEX lease_name_idx',
    'gone or changed: function leasehold_assert_held',
    'ban-drop-column',
    'renaming-table',
    'adding-required-field',
    'changing-column-type',
    'constraint-missing-not-valid',
    'require-concurrent-index-creation',
  ]) {
    expect(problems).toContainEqual(expect.stringContaining(part));
  }
});

test('an exception needs its reason outside of the migration, and something that needs it', async () => {
  const folder = await withMigration(`-- A test.
-- older versions may start
-- squawk-ignore ban-drop-column
comment on table drone is 'A machine.';
`);
  const stale = { migration: LATE, problem: 'ban-drop-column', because: 'a test' };

  expect(await examineMigrations(folder, [...ACCEPTED, stale])).toEqual([
    expect.stringContaining('exceptions are in tools/upgrades/migrations/accepted.ts'),
    expect.stringContaining('nothing needs the acceptance of ban-drop-column'),
  ]);
});
