import { onlyRow, type Sql } from './rows.ts';

/** What the promises rest on and an administrator may have changed. */
export interface DatabaseSettings {
  readonly version: string;
  readonly versionNumber: number;
  readonly synchronousCommit: string;
  readonly synchronousStandbyNames: string;
  readonly standbyCount: number;
}

/** Reads the settings of the database that the kernel depends on. */
export async function readDatabaseSettings(sql: Sql): Promise<DatabaseSettings> {
  const rows = await sql.$queryRaw<DatabaseSettings[]>`
    select
      current_setting('server_version') as version,
      current_setting('server_version_num')::int as "versionNumber",
      current_setting('synchronous_commit') as "synchronousCommit",
      current_setting('synchronous_standby_names') as "synchronousStandbyNames",
      (select count(*)::int from pg_stat_replication) as "standbyCount"`;
  return onlyRow(rows);
}

/** The database's time, ISO-8601. */
export async function readNow(sql: Sql): Promise<string> {
  const rows = await sql.$queryRaw<{ now: Date }[]>`select clock_timestamp() as now`;
  return onlyRow(rows).now.toISOString();
}

/** Answers when the database does, and its tables are there. */
export async function checkReachable(sql: Sql): Promise<void> {
  await sql.$queryRaw<
    { one: number }[]
  >`select 1 as one from (select from lease limit 1) as l right join (select 1) as x on true`;
}
