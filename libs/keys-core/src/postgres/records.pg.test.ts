import { randomUUID } from 'node:crypto';
import { withSchema } from '@leasehold/service-kit';
import { createTestDatabase } from '@leasehold/testing';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { openKernel } from '../testing/kernel-fixture.ts';
import { databaseFailureOf, sqlStateOf } from './database-errors.ts';
import { onlyRow } from './sql.ts';

const anEntry = (resource: string) => ({
  actor: 'alice',
  role: 'admin',
  action: 'tokens.create',
  resource,
});

const failureOf = async (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('typed queries of records', () => {
  test('see what a statement of the same transaction has written, and are committed with it', async () => {
    const { store } = await openKernel();
    const { general } = store;

    const seen = await general.$transaction(async (tx) => {
      await tx.$executeRaw`insert into audit (actor, role, action, resource) values ('a', 'b', 'c', 'by statement')`;
      await tx.records.audit.create({ data: anEntry('by query') });
      return tx.records.audit.count();
    });

    expect(seen).toBe(2);
    expect(await general.records.audit.count()).toBe(2);
  });

  test('of several transactions at once do not meet: each sees its own rows', async () => {
    const { store } = await openKernel();
    const ids = Array.from({ length: 6 }, () => randomUUID());

    const found = await Promise.all(
      ids.map((id) =>
        store.general.$transaction(async ({ records }) => {
          await records.person.create({ data: { id, email: `${id}@x`, name: id } });
          const rows = await Promise.all(
            ids.map((each) => records.person.findUnique({ where: { id: each } })),
          );
          return rows.flatMap((row) => (row === null ? [] : [row.id]));
        }),
      ),
    );

    for (const [index, id] of ids.entries()) expect(found[index]).toContain(id);
    expect(await store.general.records.person.count()).toBe(ids.length);
  });

  test('are rolled back with their transaction', async () => {
    const { store } = await openKernel();
    const work = store.general.$transaction(async ({ records }) => {
      await records.audit.create({ data: anEntry('a') });
      throw new Error('changed my mind');
    });

    await expect(work).rejects.toThrow('changed my mind');
    expect(await store.general.records.audit.count()).toBe(0);
  });

  test('one that fails and is not reported leaves nothing committed', async () => {
    const { store } = await openKernel();
    const person = { id: randomUUID(), email: 'a@x', name: 'a' };
    const work = store.general.$transaction(async ({ records }) => {
      await records.person.create({ data: person });
      await failureOf(records.person.create({ data: { ...person, id: randomUUID() } }));
    });

    await expect(work).rejects.toMatchObject({ code: '25P02' });
    expect(await store.general.records.person.count()).toBe(0);
  });

  test('one after the end of its transaction is refused', async () => {
    const { store } = await openKernel();
    const kept = await store.general.$transaction(async ({ records }) => {
      await records.audit.count();
      return records;
    });

    await expect(kept.audit.count()).rejects.toThrow();
  });

  test('keep other connections free: a transaction and its queries use one', async () => {
    const { store } = await openKernel({ connectionsMax: 1 });

    const count = await store.general.$transaction(async ({ records }) => records.audit.count());

    expect(count).toBe(0);
  });
});

test('typed queries find the tables in the schema that the address names', async () => {
  const { url } = await createTestDatabase();
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  await admin.query('alter schema leasehold rename to elsewhere');
  await admin.end();
  const { store } = await openKernel({ databaseUrl: withSchema(url, 'elsewhere') });

  await store.general.records.audit.create({ data: anEntry('a') });

  expect(await store.general.$transaction(({ records }) => records.audit.count())).toBe(1);
});

describe('a failed typed query is classified as the statement would be', () => {
  test('a unique violation', async () => {
    const { store } = await openKernel();
    const { records } = store.general;
    await records.person.create({ data: { id: randomUUID(), email: 'a@x', name: 'a' } });
    const error = await failureOf(
      records.person.create({ data: { id: randomUUID(), email: 'a@x', name: 'a' } }),
    );

    expect(sqlStateOf(error)).toBe('23505');
    expect(databaseFailureOf(error)).toBe('contention');
  });

  test('a value that cannot be stored', async () => {
    const { store } = await openKernel();
    const error = await failureOf(
      store.general.records.audit.create({ data: anEntry('a\u0000b') }),
    );

    expect(sqlStateOf(error)).toBe('22021');
    expect(databaseFailureOf(error)).toBe('data');
  });

  test('a cancelled one', async () => {
    const { store } = await openKernel();
    const error = await failureOf(
      store.general.$transaction(async (tx) => {
        await tx.$queryRaw`select set_config('statement_timeout', '1', true)`;
        const data = Array.from({ length: 2_000 }, () => anEntry('a'));
        for (let tries = 0; tries < 100; tries += 1) await tx.records.audit.createMany({ data });
      }),
    );

    expect(sqlStateOf(error)).toBe('57014');
    expect(databaseFailureOf(error)).toBe('timeout');
  });

  test('a lost connection', async () => {
    const { store } = await openKernel();
    const error = await failureOf(
      store.general.$transaction(async (tx) => {
        const rows = await tx.$queryRaw<{ pid: number }[]>`select pg_backend_pid() as pid`;
        await tx.records.audit.count();
        await store.vital.$queryRaw`select pg_terminate_backend(${onlyRow(rows).pid}::int)`;
        await tx.records.audit.count();
      }),
    );

    expect(databaseFailureOf(error)).toBe('lost');
  });

  test('a database that nobody can reach', async () => {
    const { store } = await openKernel({ databaseUrl: 'postgres://nobody@127.0.0.1:1/none' });
    const { general } = store;

    expect(databaseFailureOf(await failureOf(general.records.audit.count()))).toBe('unavailable');
    const inTransaction = general.$transaction(({ records }) => records.audit.count());
    expect(databaseFailureOf(await failureOf(inTransaction))).toBe('unavailable');
  });
});
