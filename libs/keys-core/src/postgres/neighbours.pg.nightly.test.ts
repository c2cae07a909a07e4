import { makeWorkerUtils, runOnce } from 'graphile-worker';
import pg from 'pg';
import PgBoss from 'pg-boss';
import { expect, test } from 'vitest';
import { aRequest, openKernel, releaseOf } from '../testing/kernel-fixture.ts';
import { openEmptyDatabase, runSql } from '../testing/migration-fixture.ts';
import { prismaDeploy, type PrismaApplication } from '../testing/prisma-engine.ts';
import { findMigrationsDir, migrate } from './migrate.ts';

const MIGRATIONS = findMigrationsDir();
const ORDERS = ['the first', 'the last'] as const;

/** An application whose tables have the names of ours. */
const APPLICATION: PrismaApplication = {
  schema: 'datasource db {\n  provider = "postgresql"\n}',
  migrations: [
    {
      name: '20250101000000_init',
      sql: `create table "person" ("id" serial primary key, "note" text not null);
            create table "drone" ("id" text primary key);
            create table "audit" ("id" bigserial primary key, "what" text not null);`,
    },
    { name: '20250102000000_lease', sql: 'create table "lease" ("id" serial primary key);' },
  ],
};

/** What shares the database. Each is set up, and then does a piece of its work. */
interface Neighbour {
  setUp(url: string): Promise<unknown>;
  work(url: string): Promise<unknown>;
  readonly works: unknown;
}

const leasehold: Neighbour = {
  setUp: (url) => migrate(url, MIGRATIONS),
  async work(databaseUrl) {
    const { leases } = await openKernel({ databaseUrl });
    const answer = await leases.grant(aRequest());
    if (answer.outcome !== 'granted') return answer.outcome;
    const released = await leases.release('lease', releaseOf(answer.grant));
    return [released, (await migrate(databaseUrl, MIGRATIONS)).applied];
  },
  works: ['released', []],
};

const prisma: Neighbour = {
  setUp: (url) => prismaDeploy(APPLICATION, url),
  work: async (url) => [
    await prismaDeploy(APPLICATION, url),
    await inPublic(url, `insert into person (note) values ('theirs') returning id, note`),
  ],
  works: [[], [{ id: 1, note: 'theirs' }]],
};

const pgBoss: Neighbour = {
  setUp: (url) => withBoss(url, (boss) => boss.createQueue('mail')),
  work: (url) =>
    withBoss(url, async (boss) => {
      await boss.send('mail', { to: 'alice' });
      const [job] = await boss.fetch('mail');
      if (job !== undefined) await boss.complete('mail', job.id);
      return job?.data;
    }),
  works: { to: 'alice' },
};

const graphileWorker: Neighbour = {
  setUp: (url) => withJobs(url, (jobs) => jobs.migrate()),
  async work(url) {
    const done: unknown[] = [];
    await withJobs(url, (jobs) => jobs.addJob('mail', { to: 'bob' }));
    const mail = (payload: unknown): void => void done.push(payload);
    await runOnce({ connectionString: url, taskList: { mail }, noPreparedStatements: true });
    return done;
  },
  works: [{ to: 'bob' }],
};

async function withBoss<T>(url: string, use: (boss: PgBoss) => Promise<T>): Promise<T> {
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
  await boss.start();
  try {
    return await use(boss);
  } finally {
    await boss.stop({ graceful: false, wait: true });
  }
}

type Jobs = Awaited<ReturnType<typeof makeWorkerUtils>>;

async function withJobs<T>(url: string, use: (jobs: Jobs) => Promise<T>): Promise<T> {
  const jobs = await makeWorkerUtils({ connectionString: url });
  try {
    return await use(jobs);
  } finally {
    await jobs.release();
  }
}

async function inPublic(connectionString: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}

test.each(ORDERS)(
  'Leasehold, %s in a database, and Prisma with the same table names, pg-boss and graphile-worker all work',
  async (order) => {
    const { name, url } = await openEmptyDatabase();
    // The default of a database; other tests search our schema first.
    await runSql(url, `alter role current_user in database ${name} set search_path = public`);
    const others = [prisma, pgBoss, graphileWorker];
    const all = order === 'the first' ? [leasehold, ...others] : [...others, leasehold];

    for (const one of all) await one.setUp(url);

    for (const one of all) expect(await one.work(url)).toEqual(one.works);
    const schemas = await runSql(
      url,
      `select distinct schemaname from pg_tables
       where schemaname not in ('pg_catalog', 'information_schema') order by 1`,
    );
    expect(schemas.map(({ schemaname }) => schemaname)).toEqual([
      'graphile_worker',
      'leasehold',
      'pgboss',
      'public',
    ]);
    expect(await tablesIn(url, 'public')).toEqual([
      '_prisma_migrations',
      'audit',
      'drone',
      'lease',
      'person',
    ]);
  },
);

async function tablesIn(url: string, schema: string): Promise<unknown[]> {
  const rows = await runSql(
    url,
    `select tablename from pg_tables where schemaname = '${schema}' order by 1`,
  );
  return rows.map(({ tablename }) => tablename);
}
