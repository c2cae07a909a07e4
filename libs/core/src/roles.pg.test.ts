import { randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { findMigrationsDir, migrate } from '@leasehold/keys-core/postgres';
import { createTestDatabase } from '@leasehold/testing';
import pg from 'pg';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  createLeaseholdCore,
  pgDatabase,
  type LeaseholdCore,
  type PgTransaction,
} from './index.ts';

const DEPLOYMENT = path.join(import.meta.dirname, '../../../docs/operate/postgresql.md');
const REFUSED = { code: '42501' };

/** A database in which the roles are made by the statements of docs/operate/postgresql.md, word for word. */
interface Database {
  /** Runs a statement as the superuser. */
  administrate(text: string): Promise<pg.QueryResult>;
  /** A pool of a role, by its name on the page. */
  poolOf(role: string): pg.Pool;
}

/** The statements of the page below `<!-- roles: RUN_BY -->`. */
async function statementsOf(runBy: string): Promise<string[]> {
  const text = await readFile(DEPLOYMENT, 'utf8');
  const blocks = new RegExp(`<!-- roles: ${runBy} -->\\n\\n\`\`\`sql\\n(.*?)\`\`\``, 'gsu');
  return [...text.matchAll(blocks)].map(([, sql = '']) => sql);
}

async function openDatabase(): Promise<Database> {
  const { url } = await createTestDatabase();
  const suffix = randomBytes(4).toString('hex');
  const names = ['leasehold_owner', 'leasehold_controller', 'billing', 'orders'];
  // Roles belong to the cluster, and other tests have theirs.
  const renamed = (text: string): string =>
    names.reduce((all, name) => all.replaceAll(name, `${name}_${suffix}`), text);
  const admin = new pg.Pool({ connectionString: url });
  const administrate = (text: string): Promise<pg.QueryResult> => admin.query(renamed(text));
  onTestFinished(async () => {
    for (const name of names) {
      await administrate(`drop owned by ${name} cascade; drop role ${name}`);
    }
    await admin.end();
  });
  const urlOf = (role: string): string => {
    const own = new URL(url);
    [own.username, own.password] = [renamed(role), 'secret'];
    return own.href;
  };
  await administrate('drop schema leasehold cascade');
  for (const text of await statementsOf('database owner')) await administrate(text);
  await administrate('create role billing login; create role orders login');
  for (const name of names) await administrate(`alter role ${name} password 'secret'`);
  await migrate(urlOf('leasehold_owner'), findMigrationsDir());
  const poolOf = (role: string): pg.Pool => {
    const pool = new pg.Pool({ connectionString: urlOf(role) });
    onTestFinished(() => pool.end());
    return pool;
  };
  const owner = poolOf('leasehold_owner');
  for (const text of await statementsOf('leasehold_owner')) await owner.query(renamed(text));
  await administrate('create table public.note (text text); grant all on public.note to public');
  return { administrate, poolOf };
}

function coreOf(database: Database, role: string): LeaseholdCore<PgTransaction> {
  return createLeaseholdCore({ database: pgDatabase(database.poolOf(role)) });
}

async function granted(core: LeaseholdCore<PgTransaction>) {
  const id = randomUUID();
  const scope = { namespace: ['test'], key: 'thing' };
  const lease = { key: () => id, scope: () => scope, durationMs: () => 60_000 };
  const answer = await core.coordinator({ holder: 'alice' }).acquire(lease, 0);
  if (answer.outcome !== 'granted') throw new Error(answer.outcome);
  return answer;
}

let database: Database;
beforeEach(async () => {
  database = await openDatabase();
});

describe('a service that may only fence its writes', () => {
  test('fences them, and can neither read nor change anything else', async () => {
    const billing = database.poolOf('billing');
    const core = createLeaseholdCore({ database: pgDatabase(billing) });
    const lease = await granted(coreOf(database, 'orders'));
    const { leaseId, fencingToken } = lease;

    await core.fencedTransaction(lease, (tx) => tx.query(`insert into note values ('fenced')`));
    const client = await billing.connect();
    await client.query('begin');
    await client.query(`insert into note values ('asserted')`);
    await client.query('select leasehold.leasehold_assert_held($1, $2)', [leaseId, fencingToken]);
    await client.query('commit');
    client.release();

    expect((await billing.query('select text from note')).rows).toEqual([
      { text: 'fenced' },
      { text: 'asserted' },
    ]);
    for (const text of [
      'select * from leasehold.lease',
      'update leasehold.lease set expires_at = now()',
      'select * from leasehold.api_token',
      'create table leasehold.mine (id int)',
    ]) {
      await expect(billing.query(text), text).rejects.toMatchObject(REFUSED);
    }
    await expect(granted(core)).rejects.toMatchObject(REFUSED);
  });

  test('is not misled by tables of its own that are named like those of Leasehold', async () => {
    const core = coreOf(database, 'billing');
    const ref = { leaseId: randomUUID(), fencingToken: '1' };

    await expect(core.fencedTransaction(ref, (tx) => tx.query('select'))).rejects.toMatchObject({
      code: 'lease.not_held',
    });
    const billing = await database.poolOf('billing').connect();
    await billing.query(
      `create temporary table lease as select $1::uuid as lease_id, 1::bigint as fencing_token,
         null::timestamptz as released_at, null::text as end_reason, now() + interval '1 h' as expires_at`,
      [ref.leaseId],
    );
    const assertion = billing.query('select leasehold.leasehold_assert_held($1, 1)', [ref.leaseId]);

    await expect(assertion).rejects.toMatchObject({ code: 'LH001' });
    billing.release(true);
  });
});

describe('a service with a coordinator', () => {
  test('grants, renews, waits, releases and reaps, and sees no secret', async () => {
    const core = coreOf(database, 'orders');
    const alice = core.coordinator({ holder: 'alice' });
    const written: string[] = [];
    const id = randomUUID();
    const lease = {
      key: () => id,
      scope: () => ({ namespace: ['test'], key: 'thing' }),
      durationMs: () => 60_000,
      willInsert: async (tx: PgTransaction) => {
        await tx.query(`insert into note values ('granted')`);
        written.push('granted');
      },
      willHeartbeat: () => written.push('renewed'),
      willReleaseOk: () => written.push('released'),
    };
    const other = { ...lease, key: () => randomUUID(), willInsert: () => undefined };

    await alice.acquire(lease, 0);
    const waiting = core.coordinator({ holder: 'bob' }).acquire(other, 10_000);
    await alice.heartbeat(lease);
    await alice.releaseOk(lease, undefined);
    const second = await waiting;
    const leader = await core.coordinator({ holder: 'leader' }).acquireOrRenew({
      ...other,
      scope: () => ({ namespace: ['test'], key: 'lead' }),
    });
    const reaped = await alice.reapStaleLeases([['test']], true, () => undefined);
    const use = { action: 'deploy', holder: 'ci', record: () => 'recorded' };
    const environment = await core.withEnvironmentLease('prod', use);
    const deployment = await core.withEnvironmentLease('prod', {
      ...use,
      waitMs: 10_000,
      supersede: 'waiting',
    });
    await database.administrate(`
      insert into leasehold.lease_declaration
        (namespace, ttl_ms, declared_by, principal, permits_per_key, permits_total, permits_by)
      values ('permits', 60000, 'orders', 'orders', 2, 4, 'orders')`);
    const permit = await alice.acquire(
      { ...other, scope: () => ({ namespace: ['permits'], key: 'thing' }) },
      0,
    );

    expect(written).toEqual(['granted', 'renewed', 'released']);
    const answers = [second, leader, environment, deployment, permit];
    expect(answers.map(({ outcome }) => outcome)).toEqual([
      ...['granted', 'granted', 'recorded', 'recorded', 'granted'],
    ]);
    expect(reaped.failedCount).toBe(0);
    const orders = database.poolOf('orders');
    for (const text of [
      'select * from leasehold.api_token',
      'select * from leasehold.person',
      'select * from leasehold.audit',
      'alter table leasehold.lease add column mine int',
    ]) {
      await expect(orders.query(text), text).rejects.toMatchObject(REFUSED);
    }
  });
});

describe('a controller', () => {
  test('may change every row, but no table and no record of a migration', async () => {
    const pool = database.poolOf('leasehold_controller');

    await pool.query(`insert into leasehold.audit (actor, role, action, resource)
      values ('a', 'admin', 'x', 'y'); delete from leasehold.audit`);

    for (const text of [
      'create table leasehold.mine (id int)',
      'drop table leasehold.audit',
      'truncate leasehold.audit',
      'alter table leasehold.audit add column mine int',
      'delete from leasehold.schema_migration',
    ]) {
      await expect(pool.query(text), text).rejects.toMatchObject(REFUSED);
    }
  });

  test('may use what a later version adds, without another grant', async () => {
    await database.poolOf('leasehold_owner').query(
      `create table leasehold.later (id bigserial, text text);
         create function leasehold.later() returns int language sql return 1;
         revoke execute on function leasehold.later() from public`,
    );

    const pool = database.poolOf('leasehold_controller');
    await pool.query(`insert into leasehold.later (text) values ('x')`);
    const { rows } = await pool.query('select leasehold.later() as later');

    expect(rows).toEqual([{ later: 1 }]);
  });
});
