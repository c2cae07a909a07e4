import { createBootClock } from '@leasehold/service-kit';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { databaseFailureOf } from './database-errors.ts';
import { SILENT_MS } from './hints.ts';
import {
  type Patience,
  type PgClientLike,
  pgDatabase,
  type PrismaClientLike,
  prismaDatabase,
  type PrismaTransaction,
  type ServiceDatabase,
} from './service-database.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test('a pool whose connections are all in use is not waited for without end, and gets a late one back', async () => {
  const released = vi.fn();
  const sent = vi.fn();
  const client: PgClientLike = {
    query: sent,
    on: vi.fn(),
    removeListener: vi.fn(),
    release: released,
  };
  let grant = (_client: PgClientLike): void => undefined;
  const pool = {
    connect: () => new Promise<PgClientLike>((resolve) => (grant = resolve)),
  };
  const outcome = pgDatabase(pool)
    .transaction(() => Promise.resolve('done'))
    .catch(databaseFailureOf);

  await vi.advanceTimersByTimeAsync(5_000);
  grant(client);

  expect(await outcome).toBe('unavailable');
  expect(released).toHaveBeenCalledExactlyOnceWith();
  expect(sent).not.toHaveBeenCalled();
});

const BEGIN = 'begin isolation level read committed';
const ANSWER_MS = 5_000;
/** By the time that a test advances. */
const patience = (): Patience => ({
  answerMs: ANSWER_MS,
  clock: createBootClock(() => performance.now()),
});
const SILENCE = new Promise<never>(() => undefined);

/** A pool whose database answers these statements, and no other. */
function poolThatAnswers(texts: readonly string[]) {
  const release = vi.fn();
  const client: PgClientLike = {
    query: (text) =>
      texts.includes(text) ? Promise.resolve({ rows: [], rowCount: 0, command: text }) : SILENCE,
    on: vi.fn(),
    removeListener: vi.fn(),
    release,
  };
  return { pool: { connect: () => Promise.resolve(client) }, release };
}

/** A client of Prisma whose database answers every statement, but no commit and no rollback. */
const PRISMA_WITHOUT_END: PrismaClientLike<PrismaTransaction> = {
  async $transaction(work) {
    const tx: PrismaTransaction = { $queryRawUnsafe: () => Promise.resolve([] as never) };
    await work(tx).catch(() => undefined);
    return SILENCE;
  },
};

test.each<[string, string[]]>([
  ['a beginning', []],
  ['a statement', [BEGIN]],
  ['a commit', [BEGIN, 'select 1']],
])('%s without an answer loses the transaction and closes the connection', async (_what, texts) => {
  const { pool, release } = poolThatAnswers(texts);
  const outcome = pgDatabase(pool)
    .transaction((transaction) => transaction.query('select 1', []), patience())
    .catch(databaseFailureOf);

  await vi.advanceTimersByTimeAsync(ANSWER_MS);

  expect(await outcome).toBe('lost');
  expect(release).toHaveBeenCalledExactlyOnceWith(true);
});

test('an error of the work is not kept back for longer than a rollback may take', async () => {
  const { pool, release } = poolThatAnswers([BEGIN]);
  const mine = new Error('mine');
  const databases: ServiceDatabase<unknown>[] = [
    pgDatabase(pool),
    prismaDatabase(PRISMA_WITHOUT_END),
  ];
  const outcomes = databases.map((database) =>
    database.transaction(() => Promise.reject(mine), patience()).catch((error: unknown) => error),
  );

  await vi.advanceTimersByTimeAsync(SILENT_MS);

  expect(await Promise.all(outcomes)).toEqual([mine, mine]);
  expect(release).toHaveBeenCalledExactlyOnceWith(true);
});

test('a transaction of Prisma is lost when its commit is not answered', async () => {
  const outcome = prismaDatabase(PRISMA_WITHOUT_END)
    .transaction((transaction) => transaction.query('select 1', []), patience())
    .catch(databaseFailureOf);

  await vi.advanceTimersByTimeAsync(ANSWER_MS);

  expect(await outcome).toBe('lost');
});
