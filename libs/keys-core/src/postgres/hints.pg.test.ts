import { describe, expect, onTestFinished, test } from 'vitest';
import { withSchema } from '@leasehold/service-kit';
import { startUrlProxy, waitUntil } from '@leasehold/testing';
import { MACHINE_CLOCK, MACHINE_IDS, openKernel, type Kernel } from '../testing/kernel-fixture.ts';
import { HintListener, type Hints, openHints } from './hints.ts';
import { findMigrationsDir, migrate } from './migrate.ts';
import { openStore } from './open-store.ts';

const LONG_MS = 60_000;

/** Counts the hints of a topic that one controller receives. */
function counting(hints: Hints, topic: string): { count: number } {
  const seen = { count: 0 };
  onTestFinished(
    hints.on(topic, () => {
      seen.count += 1;
    }),
  );
  return seen;
}

/** Two controllers on one database. Both listen: each has received a hint of the other. */
async function twoControllers(databaseUrl?: string): Promise<[Kernel, Kernel]> {
  const first = await openKernel(databaseUrl === undefined ? {} : { databaseUrl });
  const second = await openKernel({ databaseUrl: first.databaseUrl });
  for (const [from, to] of [[first, second] as const, [second, first] as const]) {
    const heard = counting(to.store.hints, 'warm-up');
    await waitUntil(() => {
      from.store.hints.notify('warm-up');
      return heard.count > 0;
    });
  }
  return [first, second];
}

/** Ends the sessions that listen, as a failover does. */
async function endListeners({ store }: Kernel): Promise<number> {
  const ended = await store.general.$queryRaw<{ pid: number }[]>`
    select pid from pg_stat_activity
    where datname = current_database() and query ilike 'listen %' and pg_terminate_backend(pid)`;
  return ended.length;
}

describe('hints', () => {
  test('reach every controller, but no listener of another topic', async () => {
    const [first, second] = await twoControllers();
    const here = counting(first.store.hints, 'key:a/b');
    const there = counting(second.store.hints, 'key:a/b');
    const elsewhere = counting(second.store.hints, 'key:a/c');

    first.store.hints.notify('key:a/b');

    expect(here.count).toBe(1);
    await waitUntil(() => there.count > 0);
    expect(elsewhere.count).toBe(0);
  });

  test('carry any topic, in as many notifications as needed', async () => {
    const [first, second] = await twoControllers();
    const topics = Array.from(
      { length: 200 },
      (_, index) => `key:${'é"\\'.repeat(60)}/${String(index)}`,
    );
    const heard = topics.map((topic) => counting(second.store.hints, topic));

    for (const topic of topics) first.store.hints.notify(topic);

    await waitUntil(() => heard.every(({ count }) => count > 0));
    expect(heard.map(({ count }) => count)).toEqual(topics.map(() => 1));
  });

  test('a wait ends with its hint, at its time limit, or with its signal', async () => {
    const { store } = await openKernel();
    const { hints, clock } = store;
    const giveUp = new AbortController();

    const byHint = hints.next('t', clock.nowMs() + LONG_MS);
    const bySignal = hints.next('never', clock.nowMs() + LONG_MS, giveUp.signal);
    const byTime = hints.next('never', clock.nowMs() + 1);
    const tooLate = hints.next('never', clock.nowMs() + LONG_MS, AbortSignal.abort());
    hints.notify('t');
    giveUp.abort();

    expect(await Promise.all([byHint, bySignal, byTime, tooLate])).toHaveLength(4);
  });

  test('a hint between the call of next and its await is not missed', async () => {
    const { store } = await openKernel();
    const waiting = store.hints.next('t', store.clock.nowMs() + LONG_MS);

    store.hints.notify('t');

    await expect(waiting).resolves.toBeUndefined();
  });

  test('after the listening connection was lost every listener is called once, and hints arrive again', async () => {
    const [first, second] = await twoControllers();
    const heard = counting(second.store.hints, 'key:a/b');

    expect(await endListeners(first)).toBe(2);

    await waitUntil(() => heard.count === 1, { what: 'the look after the new connection' });
    first.store.hints.notify('key:a/b');
    await waitUntil(() => heard.count === 2);
    expect(heard.count).toBe(2);
  });

  test('after the host of the listening connection has fallen silent, too', async () => {
    const { databaseUrl, store } = await openKernel();
    const { proxy, url } = await startUrlProxy(databaseUrl);
    onTestFinished(() => proxy.close());
    // The next step of the listener, when the test says that it is time.
    let next: (() => void) | undefined;
    const clock = {
      nowMs: () => 0,
      at(_atMs: number, fn: () => void) {
        next = fn;
        return () => undefined;
      },
    };
    const step = (): void => {
      const due = next;
      next = undefined;
      due?.();
    };
    const failures: unknown[] = [];
    const onError = (error: unknown): void => void failures.push(error);
    const hints = openHints({ schema: 'leasehold', sql: store.general, clock, onError });
    const looks = counting(hints, 'key:a/b');
    const listener = new HintListener({ databaseUrl: url, hints, clock, onError });
    onTestFinished(() => listener.close());
    // A machine that is busy may not connect in time: then its next step is to connect again.
    const untilLooked = (times: number): Promise<unknown> =>
      waitUntil(() => {
        if (looks.count < times) step();
        return looks.count === times;
      });
    await untilLooked(1);

    failures.length = 0;
    proxy.drop();
    step();
    await waitUntil(() => failures.length > 0);
    proxy.heal();

    await untilLooked(2);
    expect(failures[0]).toMatchObject({ message: 'Query read timeout' });
  });

  test('a notification in another format is ignored', async () => {
    const [first, second] = await twoControllers();
    const heard = counting(second.store.hints, 'key:a/b');

    for (const payload of ['', 'key:a/b', '{"key:a/b":1}', '[1,null]', '["key:a/b"']) {
      await first.store.general
        .$queryRaw`select pg_notify('leasehold_hint_leasehold', ${payload})::text`;
    }
    first.store.hints.notify('key:a/b');

    await waitUntil(() => heard.count > 0);
    expect(heard.count).toBe(1);
  });

  test('without a database nothing is thrown, this controller’s own hints work, and closing completes', async () => {
    const errors: unknown[] = [];
    const store = openStore({
      databaseUrl: 'postgresql://nobody@127.0.0.1:1/none',
      datacenter: 'local',
      clock: MACHINE_CLOCK,
      ids: MACHINE_IDS,
      onBackgroundError: (error) => errors.push(error),
    });
    const heard = counting(store.hints, 't');

    store.hints.notify('t');
    await waitUntil(() => errors.length > 0);
    await store.close();

    expect(heard.count).toBe(1);
  });

  test('an installation in another schema of the database receives nothing', async () => {
    const [one, two] = await twoControllers();
    const url = withSchema(one.databaseUrl, 'other');
    await migrate(url, findMigrationsDir());
    const [otherOne, otherTwo] = await twoControllers(url);
    const heard = counting(two.store.hints, 't');
    const heardElsewhere = counting(otherTwo.store.hints, 't');
    const last = counting(otherTwo.store.hints, 'last');

    one.store.hints.notify('t');
    await waitUntil(() => heard.count > 0);
    // Notifications of a database arrive in the order in which they were sent.
    otherOne.store.hints.notify('last');
    await waitUntil(() => last.count > 0);

    expect(heardElsewhere.count).toBe(0);
  });

  test('closing while connecting leaves no session behind', async () => {
    const { databaseUrl, store } = await openKernel();
    const listening = async (): Promise<number> => {
      const rows = await store.general.$queryRaw<{ count: number }[]>`
        select count(*)::int as count from pg_stat_activity
        where datname = current_database() and query ilike 'listen %'`;
      return rows[0]?.count ?? 0;
    };
    await waitUntil(async () => (await listening()) === 1);
    const onError = (): void => undefined;
    const clock = MACHINE_CLOCK;
    const hints = openHints({ schema: 'leasehold', sql: store.general, clock, onError });
    const listener = new HintListener({ databaseUrl, hints, clock, onError });

    await listener.close();

    await waitUntil(async () => (await listening()) === 1);
    expect(await listening()).toBe(1);
  });
});
