import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { databaseFailureOf } from './database-errors.ts';
import { type PgClientLike, pgDatabase } from './service-database.ts';

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
