import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createLeaseStore } from '../grants/lease-store.ts';
import { revoke } from '../grants/sql/revoke.ts';
import { age, eventsOf } from '../testing/kernel-fixture.ts';
import {
  acquire,
  acquired,
  codeOf,
  inLine,
  type Leases,
  openLeases,
  released,
  SERVICE,
} from '../testing/lease-fixture.ts';
import { createLeaseService } from './acquiring.ts';

describe('giving up', () => {
  test('takes the ticket away, and the next in line is granted', async () => {
    const one = await openLeases();
    const held = await acquired(one);
    const idempotencyKey = randomUUID();
    const first = await inLine(one, 'first', { idempotencyKey });
    const second = await inLine(one, 'second');

    const outcome = await one.service.cancel({ idempotencyKey }, SERVICE);
    await released(one, held);

    expect(outcome).toBe('cancelled');
    await expect(codeOf(first.answer)).resolves.toBe('lease.wait_cancelled');
    await expect(second.answer).resolves.toMatchObject({ outcome: 'granted' });
  });

  test('releases the grant if the request was granted already', async () => {
    const one = await openLeases();
    const idempotencyKey = randomUUID();
    await acquired(one, { idempotencyKey });

    const outcome = await one.service.cancel({ idempotencyKey }, SERVICE);

    expect(outcome).toBe('released');
    await expect(acquire(one, { holder: 'bob' })).resolves.toMatchObject({ outcome: 'granted' });
  });

  test('bars a request that arrives only after it was given up', async () => {
    const one = await openLeases();
    const idempotencyKey = randomUUID();

    const outcome = await one.service.cancel({ idempotencyKey }, SERVICE);

    expect(outcome).toBe('not_found');
    await expect(codeOf(acquire(one, { idempotencyKey }))).resolves.toBe('lease.wait_cancelled');
    await expect(codeOf(acquire(one, { idempotencyKey, waitMs: 1_000 }))).resolves.toBe(
      'lease.wait_cancelled',
    );
  });

  test('affects only the caller’s own requests: another principal’s idempotency key is another key', async () => {
    const one = await openLeases();
    const idempotencyKey = randomUUID();
    const lease = await acquired(one, { idempotencyKey });

    const outcome = await one.service.cancel(
      { idempotencyKey },
      { ...SERVICE, principal: 'token-other' },
    );

    expect(outcome).toBe('not_found');
    expect(await released(one, lease)).toBe('released');
  });

  test('I9 never leaves a cancelled waiter with a grant, however it races with a release', async () => {
    const one = await openLeases();
    const two = await openLeases({ databaseUrl: one.databaseUrl });

    for (let round = 0; round < 15; round += 1) {
      const name = `race-${String(round)}`;
      const idempotencyKey = randomUUID();
      const held = await acquired(one, { name });
      const { answer } = await inLine(one, 'racer', { name, idempotencyKey });
      const [outcome] = await Promise.all([
        two.service.cancel({ idempotencyKey }, SERVICE),
        released(one, held),
      ]);
      await answer.catch(() => undefined);
      expect(['cancelled', 'released']).toContain(outcome);
      await expect(acquire(two, { name, holder: 'after' })).resolves.toMatchObject({
        outcome: 'granted',
      });
    }
  });

  test('releases the grant although a replay has taken a place in line meanwhile', async () => {
    const one = await openLeases();
    const idempotencyKey = randomUUID();
    const lease = await acquired(one, { idempotencyKey });
    // The state for a moment when a replay joins the line while its ticket is being granted.
    await one.store.general.$queryRaw`
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
      values ('lease', 'user.update', '42', ${lease.leaseId}::uuid, 'alice',
        ${SERVICE.principal}, clock_timestamp() + interval '1 minute')
      returning ticket_id`;

    const outcome = await one.service.cancel({ idempotencyKey }, SERVICE);

    expect(outcome).toBe('released');
    await expect(acquire(one, { holder: 'bob' })).resolves.toMatchObject({ outcome: 'granted' });
  });
});

interface Given {
  readonly one: Leases;
  readonly idempotencyKey: string;
}

/** The states of a request when it is given up, each with the answer to giving it up. */
const STATES: readonly [string, 'cancelled' | 'released' | 'not_found', (on: Given) => unknown][] =
  [
    ['not come yet', 'not_found', () => undefined],
    ['in line', 'cancelled', (on) => waiting(on)],
    ['granted', 'released', (on) => mine(on)],
    [
      'granted after a wait',
      'released',
      async (on) => {
        const { held, answer } = await waiting(on);
        await released(on.one, held);
        await answer;
      },
    ],
    ['released', 'not_found', async (on) => released(on.one, await mine(on))],
    ['expired', 'not_found', async (on) => age(on.one, (await mine(on)).leaseId, 60_000)],
    [
      'superseded',
      'not_found',
      async (on) => {
        await age(on.one, (await mine(on)).leaseId, 60_000);
        await acquired(on.one, { holder: 'next' });
      },
    ],
    [
      'revoked',
      'not_found',
      async (on) => {
        const { leaseId } = await mine(on);
        const by = { actor: 'op', reason: 'r', namespaces: null };
        await revoke(on.one.store.general, 'lease', [
          { leaseId, mode: 'force', abandon: false, ...by },
        ]);
      },
    ],
    ['refused', 'not_found', (on) => refused(on, 0)],
    ['given up after its wait', 'not_found', (on) => refused(on, 50)],
  ];

/** The same service, but it awaits `before` ahead of each of its statements. */
function beforeStatements({ store }: Leases, before: () => Promise<void>): Pick<Leases, 'service'> {
  const transitions = new Proxy(store.transitions, {
    get(client, name) {
      if (name !== '$queryRaw') return Reflect.get(client, name) as unknown;
      return async (...statement: Parameters<typeof client.$queryRaw>) => {
        await before();
        return client.$queryRaw(...statement);
      };
    },
  });
  const slowed = { ...store, transitions };
  const leases = createLeaseStore(slowed);
  return { service: createLeaseService({ store: slowed, leases, face: 'lease' }) };
}

function mine({ one, idempotencyKey }: Given): ReturnType<typeof acquired> {
  return acquired(one, { idempotencyKey });
}

async function waiting({ one, idempotencyKey }: Given) {
  const held = await acquired(one, { holder: 'other' });
  const { answer } = await inLine(one, 'alice', { idempotencyKey });
  return { held, answer };
}

async function refused({ one, idempotencyKey }: Given, waitMs: number): Promise<void> {
  const held = await acquired(one, { holder: 'other' });
  await acquire(one, { idempotencyKey, waitMs });
  await released(one, held);
}

describe('a request that was given up', () => {
  test.each(STATES)(
    'I9 when it was %s: %s, and its key is never answered with a grant again',
    async (_state, expected, arrange) => {
      const one = await openLeases();
      const two = await openLeases({ databaseUrl: one.databaseUrl });
      const idempotencyKey = randomUUID();
      await arrange({ one, idempotencyKey });

      const outcome = await two.service.cancel({ idempotencyKey }, SERVICE);
      const eventCount = (await eventsOf(one, '42')).length;
      const again = [
        () => acquire(one, { idempotencyKey }),
        () => acquire(two, { idempotencyKey, waitMs: 100 }),
        () => acquire(one, { idempotencyKey, waitMs: 100 }),
      ];
      const answers: string[] = [];
      for (const ask of again) {
        let answer = 'none';
        const code = await codeOf(ask().then((given) => (answer = given.outcome)));
        answers.push(code === 'no error' ? answer : code);
      }

      expect(outcome).toBe(expected);
      for (const answer of answers) {
        expect(['lease.wait_cancelled', 'held']).toContain(answer);
      }
      expect(await eventsOf(one, '42')).toHaveLength(eventCount);
      expect(['not_found', 'cancelled']).toContain(
        await one.service.cancel({ idempotencyKey }, SERVICE),
      );
    },
  );

  test('I9 before any statement of its replay: the replay is cancelled, too, and gets no grant', async () => {
    const one = await openLeases();
    let lateAt: number | undefined;

    for (let at = 0; lateAt === undefined; at += 1) {
      const name = `at-${String(at)}`;
      const idempotencyKey = randomUUID();
      const lease = await acquired(one, { name, idempotencyKey });
      const cancelled: string[] = [];
      let count = 0;
      const replaying = beforeStatements(one, async () => {
        if (count === at) cancelled.push(await one.service.cancel({ idempotencyKey }, SERVICE));
        count += 1;
      });
      const answer = await acquire(replaying, { name, idempotencyKey, localTimeMs: 0 }).catch(
        (error: unknown) => error,
      );

      if (cancelled.length > 0) expect(answer).toMatchObject({ code: 'lease.wait_cancelled' });
      else {
        expect(answer).toMatchObject({ outcome: 'granted', lease: { leaseId: lease.leaseId } });
        lateAt = at;
      }
    }
    // It was given up at least before its grant was refused and before its record was read.
    expect(lateAt).toBeGreaterThanOrEqual(2);
  });

  test('I9 while replays of it race: no replay that is sent after the answer is granted', async () => {
    const one = await openLeases();
    const two = await openLeases({ databaseUrl: one.databaseUrl });

    for (let round = 0; round < 15; round += 1) {
      const name = `race-${String(round)}`;
      const idempotencyKey = randomUUID();
      const lease = await acquired(one, { name, idempotencyKey });
      const replays = Array.from({ length: 6 }, (_, place) =>
        acquire(place % 2 === 0 ? one : two, {
          name,
          idempotencyKey,
          localTimeMs: 0,
          waitMs: place < 3 ? 0 : 500,
        }).catch((error: unknown) => error),
      );
      const outcome = await two.service.cancel({ idempotencyKey }, SERVICE);
      const late = await codeOf(acquire(one, { name, idempotencyKey }));

      expect(outcome).toBe('released');
      expect(late).toBe('lease.wait_cancelled');
      for (const answer of await Promise.all(replays)) {
        // A replay that came first gets the whole grant; no replay gets a grant that has ended.
        if (answer instanceof Error) {
          expect(answer).toMatchObject({ code: 'lease.wait_cancelled' });
        } else {
          const { lease: again } = answer as { lease: typeof lease };
          expect(again.leaseId).toBe(lease.leaseId);
          expect(again.deadlines.loseAtMs).toBeGreaterThan(0);
        }
      }
      await expect(acquire(two, { name, holder: 'after' })).resolves.toMatchObject({
        outcome: 'granted',
      });
    }
  });
});
