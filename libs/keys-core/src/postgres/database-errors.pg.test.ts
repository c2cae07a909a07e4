import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import {
  MACHINE_CLOCK,
  MACHINE_IDS,
  granted,
  openKernel,
  type Kernel,
} from '../testing/kernel-fixture.ts';
import { databaseFailureOf, sqlStateOf } from './database-errors.ts';
import { openStore } from './open-store.ts';

/** How the failure of a statement is classified, and its SQLSTATE. */
async function failureOf(run: () => Promise<unknown>): Promise<[string, string | undefined]> {
  try {
    await run();
  } catch (error) {
    return [databaseFailureOf(error), sqlStateOf(error)];
  }
  return ['none', undefined];
}

async function openSession(kernel: Kernel): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: kernel.databaseUrl });
  client.on('error', () => undefined);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** States that the test lets the server raise, because their real causes are hard to produce. */
const RAISED: readonly [string, string][] = [
  ['40001', 'contention'],
  ['23505', 'contention'],
  ['25P03', 'timeout'],
  ['25P04', 'timeout'],
  ['57P02', 'lost'],
  ['57P03', 'unavailable'],
  ['53100', 'unavailable'],
  ['53200', 'unavailable'],
  ['53300', 'unavailable'],
  ['58030', 'unavailable'],
  ['25006', 'unavailable'],
  ['54001', 'data'],
  ['23514', 'data'],
  ['22012', 'data'],
  ['08006', 'lost'],
  ['42P01', 'other'],
  ['XX000', 'other'],
  ['XX001', 'other'],
  ['XX002', 'other'],
];

describe('the classification of a failed statement', () => {
  test.each(RAISED)('%s is %s', async (sqlState, failure) => {
    const { store } = await openKernel();

    const seen = await failureOf(() =>
      store.general.$transaction(async (tx) => {
        await tx.$queryRaw`select set_config('test.state', ${sqlState}, true)`;
        await tx.$executeRaw`do $$ begin
          raise exception 'test' using errcode = current_setting('test.state');
        end $$`;
      }),
    );

    expect(seen).toEqual([failure, sqlState]);
  });

  test('55P03: a row that is locked for longer than the lock timeout is contention', async () => {
    const kernel = await openKernel();
    const { leaseId } = await granted(kernel);
    const session = await openSession(kernel);
    await session.query('begin');
    await session.query('select from lease where lease_id = $1 for update', [leaseId]);

    const seen = await failureOf(() =>
      kernel.store.general.$transaction(async (tx) => {
        await tx.$queryRaw`select set_config('lock_timeout', '20', true)`;
        await tx.$queryRaw`select name from lease where lease_id = ${leaseId}::uuid for update`;
      }),
    );

    expect(seen).toEqual(['contention', '55P03']);
  });

  test('40P01: one of two transactions that wait for each other gets contention', async () => {
    const kernel = await openKernel();
    const [one, two] = await Promise.all([
      granted(kernel, { name: 'a' }),
      granted(kernel, { name: 'b' }),
    ]);
    const session = await openSession(kernel);
    // A session looks for a deadlock once in each wait, and fails if it finds one: this one does not look.
    await session.query(`set deadlock_timeout = '1min'`);
    await session.query('begin');
    await session.query('select from lease where lease_id = $1 for update', [two.leaseId]);

    const seen = await failureOf(() =>
      kernel.store.general.$transaction(async (tx) => {
        await tx.$queryRaw`select set_config('deadlock_timeout', '50ms', true),
          set_config('idle_in_transaction_session_timeout', '0', true)`;
        await tx.$queryRaw`select name from lease where lease_id = ${one.leaseId}::uuid for update`;
        const other = session.query('select from lease where lease_id = $1 for update', [
          one.leaseId,
        ]);
        onTestFinished(() =>
          other.then(
            () => undefined,
            () => undefined,
          ),
        );
        await waitUntil(async () => {
          const waiting = await kernel.store.general.$queryRaw<{ pid: number }[]>`
            select pid from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock'`;
          return waiting.length > 0;
        });
        await tx.$queryRaw`select name from lease where lease_id = ${two.leaseId}::uuid for update`;
      }),
    );
    await session.query('rollback');

    expect(seen).toEqual(['contention', '40P01']);
  });

  test('23505: a lease id that is in use is contention, not a defect of its neighbours', async () => {
    const kernel = await openKernel();
    const { leaseId } = await granted(kernel);

    const seen = await failureOf(() => granted(kernel, { name: 'other', leaseId }));

    expect(seen).toEqual(['contention', '23505']);
  });

  test('57014: a statement that the server cancels has timed out', async () => {
    const { store } = await openKernel();

    const seen = await failureOf(() =>
      store.general.$transaction(async (tx) => {
        await tx.$queryRaw`select set_config('statement_timeout', '20', true)`;
        await tx.$queryRaw`select pg_sleep(60)::text`;
      }),
    );

    expect(seen).toEqual(['timeout', '57014']);
  });

  test.each([
    [
      '22021: NUL in a text',
      (kernel: Kernel) => kernel.store.general.$queryRaw`select ${'a\0b'}::text`,
    ],
    [
      '22P02: what is no number',
      (kernel: Kernel) => kernel.store.general.$queryRaw`select ${'x'}::text::int`,
    ],
    [
      '22P05: NUL in JSON',
      (kernel: Kernel) =>
        kernel.store.general.$queryRaw`select ${'{"a":"\\u0000"}'}::text::jsonb ->> 'a'`,
    ],
    [
      '54001: JSON that is nested too deeply',
      (kernel: Kernel) =>
        kernel.store.general.$queryRaw`select ${'['.repeat(200_000)}::text::jsonb`,
    ],
    [
      '23514: what a check forbids',
      (kernel: Kernel) =>
        kernel.store.general.$executeRaw`update database_epoch set only_row = false`,
    ],
    [
      '21000: one row twice in a statement',
      (kernel: Kernel) => kernel.store.general.$executeRaw`
      insert into lease_request (id)
      select lease_request_id('p', 'k') from generate_series(1, 2)
      on conflict (id) do update set answer = null`,
    ],
  ])('%s is bad data', async (name, run) => {
    const kernel = await openKernel();

    expect(await failureOf(() => run(kernel))).toEqual(['data', name.slice(0, 5)]);
  });

  test('57P01: a statement whose session an operator ends has an unknown outcome', async () => {
    const { store } = await openKernel({ renewalTimeoutMs: 60_000 });

    const ended = failureOf(() => store.renewals.$queryRaw`select pg_sleep(60)::text`);
    await waitUntil(async () => {
      const sleeping = await store.general.$queryRaw<{ pid: number }[]>`
        select pid from pg_stat_activity
        where datname = current_database() and query like 'select pg_sleep%' and state = 'active'
          and pid <> pg_backend_pid() and pg_terminate_backend(pid)`;
      return sleeping.length > 0;
    });

    expect((await ended)[0]).toBe('lost');
    expect(await failureOf(() => store.renewals.$queryRaw`select 1`)).toEqual(['none', undefined]);
  });

  test('a database that refuses connections is unavailable', async () => {
    const store = openStore({
      databaseUrl: 'postgresql://nobody@127.0.0.1:1/none',
      datacenter: 'local',
      clock: MACHINE_CLOCK,
      ids: MACHINE_IDS,
    });
    onTestFinished(() => store.close());

    expect((await failureOf(() => store.general.$queryRaw`select 1`))[0]).toBe('unavailable');
    expect(
      (await failureOf(() => store.general.$transaction((tx) => tx.$queryRaw`select 1`)))[0],
    ).toBe('unavailable');
  });

  test.each([
    ['3D000: a database that is not there', { pathname: '/there_is_none' }],
    ['28P01: a user or password that is wrong', { username: 'nobody' }],
  ])('%s is unavailable: the statement was never sent', async (name, change) => {
    const { databaseUrl } = await openKernel();
    const { href } = Object.assign(new URL(databaseUrl), change);
    const store = openStore({
      databaseUrl: href,
      datacenter: 'local',
      clock: MACHINE_CLOCK,
      ids: MACHINE_IDS,
    });
    onTestFinished(() => store.close());

    expect(await failureOf(() => store.general.$queryRaw`select 1`)).toEqual([
      'unavailable',
      name.slice(0, 5),
    ]);
  });

  test.each([
    ['a defect of ours', new TypeError('x is not a function'), 'other'],
    ['a text', 'ECONNRESET', 'lost'],
    ['nothing at all', undefined, 'other'],
    [
      'a pool that has no connection left',
      new Error('timeout exceeded when trying to connect'),
      'unavailable',
    ],
    [
      'a new connection that is not open in time',
      new Error('Connection terminated due to connection timeout'),
      'unavailable',
    ],
    [
      'a new connection of no pool that is not open in time',
      new Error('timeout expired'),
      'unavailable',
    ],
    ['an answer that does not come in time', new Error('Query read timeout'), 'lost'],
    [
      'a server that has gone silent under a statement',
      Object.assign(new Error('read ETIMEDOUT'), { code: 'ETIMEDOUT' }),
      'lost',
    ],
    [
      'a server that cannot be reached',
      Object.assign(new Error('connect ETIMEDOUT 192.0.2.1:5432'), { code: 'ETIMEDOUT' }),
      'unavailable',
    ],
    ['a broken pipe', Object.assign(new Error('write'), { code: 'EPIPE' }), 'lost'],
  ])('%s, which has no SQLSTATE, is classified by its message', (_name, error, failure) => {
    expect([databaseFailureOf(error), sqlStateOf(error)]).toEqual([failure, undefined]);
  });
});
