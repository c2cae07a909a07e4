import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { invariant } from '../kernel/errors.ts';
import type { Grant, GrantRequest } from '../kernel/lease.ts';
import { compareFencingTokens } from '../kernel/lease.ts';
import { readLeases } from '../postgres/sql.ts';
import {
  age,
  aRequest,
  eventsOf,
  granted,
  type Kernel,
  openKernel,
  releaseOf,
  renewalOf,
} from '../testing/kernel-fixture.ts';
import { createLeaseStore, type LeaseStore } from './lease-store.ts';
import { grantWithin } from './pooling.ts';
import { declarePermits, whileOverstayed } from '../testing/pool-fixture.ts';

const permit = (change: Partial<GrantRequest> = {}) => aRequest({ mode: 'permit', ...change });
const shared = (change: Partial<GrantRequest> = {}) => aRequest({ mode: 'shared', ...change });

const MODE_REFUSED = { reason: { code: 'request.invalid', details: { field: 'mode' } } };

async function outcomes(kernel: Kernel, requests: readonly GrantRequest[]): Promise<string[]> {
  const answers = await Promise.all(requests.map((request) => kernel.leases.grant(request)));
  return answers.map(({ outcome }) => outcome).sort();
}

/** What became of requests that are sent at the same moment, and so by one statement. */
function settled({ leases }: Kernel, requests: readonly GrantRequest[]) {
  return Promise.allSettled(requests.map((request) => leases.grant(request)));
}

/** Takes a place in the line for a key, for an ordinary request. */
async function waitFor({ store }: Kernel, name: string): Promise<void> {
  await store.general.$executeRaw`
    insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
    values ('lease', 'test', ${name}, gen_random_uuid(), 'w', 'p', clock_timestamp() + interval '1 hour')`;
}

describe('permits', () => {
  test('as many callers hold a scope at once as there are permits, and one more is refused with who holds it', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 3 });

    const first = await outcomes(kernel, [permit(), permit(), permit()]);
    const fourth = await kernel.leases.grant(permit());

    expect(first).toEqual(['granted', 'granted', 'granted']);
    expect(fourth).toMatchObject({
      outcome: 'held',
      by: { holder: 'alice' },
      pool: { kind: 'permit', used: 3, permits: 3, total: null },
    });
    expect(fourth.outcome === 'held' && fourth.pool?.holders).toHaveLength(3);
  });

  test('callers that ask at the same moment get no more than there are', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });

    const asked = Array.from({ length: 7 }, () => permit());

    expect(await outcomes(kernel, asked)).toEqual([
      'granted',
      'granted',
      'held',
      'held',
      'held',
      'held',
      'held',
    ]);
  });

  test('each holder renews and releases its own, and what one releases is free for the next', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });
    const one = await granted(kernel, { mode: 'permit' });
    const two = await granted(kernel, { mode: 'permit' });

    const renewed = await kernel.leases.renew('lease', renewalOf(one));
    const released = await kernel.leases.release('lease', releaseOf(two));
    const next = await kernel.leases.grant(permit());
    const late = await kernel.leases.renew('lease', renewalOf(two));

    expect([renewed.outcome, released, next.outcome, late]).toMatchObject([
      'renewed',
      'released',
      'granted',
      { outcome: 'refused', reason: 'released' },
    ]);
  });

  test('a fencing token is larger than all before it for the scope, whichever permit it is for', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 3 });
    const tokens: string[] = [];
    for (let round = 0; round < 3; round += 1) {
      const held: Grant[] = [];
      for (let each = 0; each < 3; each += 1) held.push(await granted(kernel, { mode: 'permit' }));
      tokens.push(...held.map(({ fencingToken }) => fencingToken));
      for (const grant of held.reverse()) await kernel.leases.release('lease', releaseOf(grant));
    }

    const sorted = tokens.toSorted(compareFencingTokens);

    expect(tokens).toEqual(sorted);
    expect(new Set(tokens).size).toBe(9);
  });

  test('a permit that has run out is taken over, with its one event under the name of the scope', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 1 });
    const old = await granted(kernel, { mode: 'permit' });
    await age(kernel, old.leaseId, 61_000);

    const next = await granted(kernel, { mode: 'permit' });

    expect(await eventsOf(kernel, 'thing')).toEqual([
      `granted ${old.fencingToken}`,
      `expired ${old.fencingToken}`,
      `granted ${next.fencingToken}`,
    ]);
  });

  test('with fewer permits than holders nobody is stopped, and nobody is admitted until there is room', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 3 });
    const held = [];
    for (let each = 0; each < 3; each += 1) held.push(await granted(kernel, { mode: 'permit' }));
    await declarePermits(kernel, { perKey: 1 });
    const [one, two, three] = held as [Grant, Grant, Grant];

    const renewed = await kernel.leases.renew('lease', renewalOf(three));
    await kernel.leases.release('lease', releaseOf(one));
    const whileTwo = await kernel.leases.grant(permit());
    await kernel.leases.release('lease', releaseOf(two));
    const whileOne = await kernel.leases.grant(permit());
    await kernel.leases.release('lease', releaseOf(three));
    const whenFree = await outcomes(kernel, [permit(), permit()]);

    expect([renewed.outcome, whileTwo.outcome, whileOne.outcome, whenFree]).toEqual([
      'renewed',
      'held',
      'held',
      ['granted', 'held'],
    ]);
  });

  test('the limit of all keys together holds beside that of each key', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2, total: 3 });
    const of = (name: string): GrantRequest => permit({ name });

    const first = await outcomes(kernel, [of('a'), of('a'), of('a'), of('b')]);
    const more = await outcomes(kernel, [of('b'), of('c')]);
    const refused = await kernel.leases.grant(of('c'));

    expect([first, more]).toEqual([
      ['granted', 'granted', 'granted', 'held'],
      ['held', 'held'],
    ]);
    expect(refused).toMatchObject({
      pool: { used: 0, permits: 2, total: { used: 3, permits: 3 } },
    });
  });

  test('the tokens of a key go on above those from before it shared a limit, also when the clock has gone back', async () => {
    const kernel = await openKernel();
    await kernel.leases.release('lease', releaseOf(await granted(kernel, { name: 'a' })));
    const [before] = await kernel.store.general.$queryRaw<{ token: string }[]>`
      update lease set fencing_token = fencing_token + 1000000000000 where name = 'a'
      returning fencing_token::text as token`;
    await declarePermits(kernel, { perKey: 2, total: 3 });

    const next = await granted(kernel, { mode: 'permit', name: 'a' });

    expect(compareFencingTokens(next.fencingToken, before?.token ?? '')).toBe(1);
  });

  test('an ordinary request that waits for a permit of all keys together is passed by nobody', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2, total: 2 });
    await granted(kernel, { mode: 'permit', name: 'a' });

    await waitFor(kernel, 'held by nobody');
    const beside = await kernel.leases.grant(permit({ name: 'b' }));
    invariant(beside.outcome === 'granted', 'that one waits for no permit');
    await kernel.leases.release('lease', releaseOf(beside.grant));
    await waitFor(kernel, 'a');
    const newcomer = await kernel.leases.grant(permit({ name: 'b' }));

    expect(newcomer.outcome).not.toBe('granted');
  });

  test('a newcomer is told who waits for another key before it, also while nobody holds a permit', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 1, total: 1 });
    const former = await granted(kernel, { mode: 'permit', name: 'a' });
    await kernel.leases.release('lease', releaseOf(former));
    await waitFor(kernel, 'a');

    const newcomer = await kernel.leases.grant(permit({ name: 'b' }));

    expect(newcomer).toMatchObject({ outcome: 'queued', head: { waiter: 'w' } });
  });

  test('an ordinary request for a scope with permits takes one of them', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });
    await granted(kernel, { mode: 'permit' });

    expect(await outcomes(kernel, [aRequest(), aRequest()])).toEqual(['granted', 'held']);
  });

  test('a request to hold a scope with permits alone is refused, and takes none of them', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });
    await granted(kernel, { mode: 'permit' });

    const refused = { code: 'request.invalid', details: { field: 'mode' } };
    await expect(kernel.leases.grant(aRequest({ alone: true }))).rejects.toMatchObject(refused);
    await expect(kernel.leases.refusal(aRequest({ alone: true }))).rejects.toMatchObject(refused);
    expect((await kernel.leases.grant(permit())).outcome).toBe('granted');
  });

  test('while one holds the scope in the ordinary way no permit is granted, and after it all are', async () => {
    const kernel = await openKernel();
    const alone = await granted(kernel);
    await declarePermits(kernel, { perKey: 2 });

    const during = await outcomes(kernel, [permit(), aRequest()]);
    await kernel.leases.release('lease', releaseOf(alone));
    const after = await kernel.leases.grant(permit());

    expect([during, after.outcome]).toEqual([['held', 'held'], 'granted']);
  });

  test('a key that is held from before permits were declared takes none of the total, and who waits for it keeps nobody back', async () => {
    const kernel = await openKernel();
    await granted(kernel, { name: 'old' });
    await declarePermits(kernel, { perKey: 2, total: 1 });
    await kernel.store.general.$queryRaw`
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until, mode)
      values ('lease', 'test', 'old', gen_random_uuid(), 'w', 'p', clock_timestamp() + interval '1 hour', 'permit')
      returning 1`;

    const taken = await outcomes(kernel, [permit({ name: 'a' }), permit({ name: 'b' })]);

    expect(taken).toEqual(['granted', 'held']);
  });

  test('an ordinary request for a key that nobody has held yet takes a permit, also of the total', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2, total: 3 });
    const of = (name: string): GrantRequest => aRequest({ name });

    const first = await outcomes(kernel, [of('a'), of('a'), of('a'), of('b')]);
    const more = await outcomes(kernel, [of('b'), of('c'), permit({ name: 'c' })]);
    const alone = kernel.leases.grant(aRequest({ name: 'new', alone: true }));

    expect([first, more]).toEqual([
      ['granted', 'granted', 'granted', 'held'],
      ['held', 'held', 'held'],
    ]);
    await expect(alone).rejects.toMatchObject({ code: 'request.invalid' });
  });

  test('a lease that has run out since permits were declared is taken over as a permit, with its one event', async () => {
    const kernel = await openKernel();
    const old = await granted(kernel);
    await declarePermits(kernel, { perKey: 2 });
    await age(kernel, old.leaseId, 61_000);

    const taken = await outcomes(kernel, [aRequest(), aRequest(), aRequest()]);

    expect(taken).toEqual(['granted', 'granted', 'held']);
    const events = await eventsOf(kernel, 'thing');
    expect(events.filter((event) => event.startsWith('expired'))).toEqual([
      `expired ${old.fencingToken}`,
    ]);
  });

  test('the own row of a pool is held back until a date that every version can show, and has no TTL that is doubted', async () => {
    const kernel = await openKernel();
    const alone = await granted(kernel);
    await kernel.leases.release('lease', releaseOf(alone));
    await declarePermits(kernel, { perKey: 2 });
    await granted(kernel, { mode: 'permit' });

    const [own] = await readLeases(kernel.store.general, [aRequest()]);

    expect(new Date(own?.stopsBy ?? 0).toISOString()).toBe('9999-12-31T00:00:00.000Z');
    expect(own?.ttlMs).toBe(4);
  });

  test('a permit of a namespace for which no number is declared is refused with that', async () => {
    const kernel = await openKernel();

    const asked = kernel.leases.grant(permit({ namespace: 'undeclared' }));

    await expect(asked).rejects.toMatchObject({ code: 'lease.permits_not_declared' });
  });

  test('a request with an idempotency key that was used is not granted another permit', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 3 });
    const request = { idempotencyKey: randomUUID(), fingerprint: 'f' };
    await kernel.leases.grant(permit(request));

    const again = await kernel.leases.grant(permit(request));

    expect(again.outcome).toBe('recorded');
  });

  test('a permit whose row is locked counts as held, although it has run out', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 1 });
    const old = await granted(kernel, { mode: 'permit' });

    const during = await whileOverstayed(kernel, old, () =>
      kernel.leases.grant(permit()).catch((error: unknown) => error),
    );
    const after = await kernel.leases.grant(permit());

    expect(during).toMatchObject({ outcome: 'held', by: { leaseId: old.leaseId }, doubtMs: 0 });
    expect(after.outcome).toBe('granted');
  });

  test('a permit that was released and whose row is locked keeps nobody from another one', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });
    const old = await granted(kernel, { mode: 'permit' });
    await kernel.leases.release('lease', releaseOf(old));

    const during = await kernel.store.general.$transaction(async (tx) => {
      await tx.$queryRaw`select lease_id from lease where lease_id = ${old.leaseId}::uuid for key share`;
      return outcomes(kernel, [permit(), permit({ name: 'b' })]).catch((error: unknown) => error);
    });
    const after = await kernel.leases.grant(permit());

    expect(during).toEqual(['granted', 'granted']);
    expect(after.outcome).toBe('granted');
  });
});

/** The kernel's leases, with the answer to the next transition lost after it was committed. */
function losingAnswer({ store }: Kernel): LeaseStore {
  const { transitions } = store;
  let isLost = false;
  const queryRaw = async (...statement: Parameters<typeof transitions.$queryRaw>) => {
    const rows = await transitions.$queryRaw(...statement);
    if (isLost) return rows;
    isLost = true;
    throw new Error('Connection terminated unexpectedly');
  };
  const losing = Object.assign(Object.create(transitions), { $queryRaw: queryRaw }) as never;
  return createLeaseStore({ ...store, statementTimeoutMs: 0, transitions: losing });
}

test('a permit whose answer was lost with the connection is found, and its caller has it', async () => {
  const kernel = await openKernel();
  await declarePermits(kernel, { perKey: 2 });
  await granted(kernel, { mode: 'permit' });
  const request = permit();

  const answer = await losingAnswer(kernel).grant(request);

  invariant(answer.outcome === 'granted', 'there is room');
  expect(answer.grant).toMatchObject({ leaseId: request.leaseId, name: request.name });
  const renewed = await kernel.leases.renew('lease', renewalOf(answer.grant));
  expect(renewed.outcome).toBe('renewed');
});

describe('shared and exclusive', () => {
  test('many share a scope; one that wants it alone is refused until all have left, and then nobody shares it', async () => {
    const kernel = await openKernel();
    const one = await granted(kernel, { mode: 'shared' });
    const two = await granted(kernel, { mode: 'shared' });

    const during = await kernel.leases.grant(aRequest());
    await kernel.leases.release('lease', releaseOf(one));
    const stillShared = await kernel.leases.grant(aRequest());
    await kernel.leases.release('lease', releaseOf(two));
    const alone = await granted(kernel);
    const beside = await outcomes(kernel, [shared(), aRequest()]);

    expect([during.outcome, stillShared.outcome, beside]).toEqual([
      'held',
      'held',
      ['held', 'held'],
    ]);
    expect(compareFencingTokens(alone.fencingToken, two.fencingToken)).toBe(1);
  });

  test('a lease that one holds in the ordinary way is not shared with anybody', async () => {
    const kernel = await openKernel();
    const alone = await granted(kernel);

    const during = await kernel.leases.grant(shared());
    await kernel.leases.release('lease', releaseOf(alone));
    const after = await outcomes(kernel, [shared(), shared()]);

    expect([during.outcome, after]).toEqual(['held', ['granted', 'granted']]);
  });

  test('the first shared grant after one that ran out ends that one, with its one event and its callback', async () => {
    const kernel = await openKernel();
    const old = await granted(kernel);
    await age(kernel, old.leaseId, 61_000);

    const next = await granted(kernel, { mode: 'shared' });
    const owed = await kernel.store.general.$queryRaw`select name from lease_reap`;

    expect(await eventsOf(kernel, 'thing')).toEqual([
      `granted ${old.fencingToken}`,
      `expired ${old.fencingToken}`,
      `granted ${next.fencingToken}`,
    ]);
    expect(owed).toEqual([{ name: 'thing' }]);
  });

  test('a scope with permits is not shared, and one that is shared has no permits', async () => {
    const kernel = await openKernel();
    await granted(kernel, { mode: 'shared', name: 'b' });
    await declarePermits(kernel, { perKey: 2 });
    await granted(kernel, { mode: 'permit', name: 'a' });

    const failures = await Promise.all(
      [shared({ name: 'a' }), permit({ name: 'b' })].map((request) =>
        kernel.leases.grant(request).catch((error: unknown) => error),
      ),
    );

    expect(failures).toMatchObject([
      { code: 'request.invalid', details: { field: 'mode' } },
      { code: 'request.invalid', details: { field: 'mode' } },
    ]);
  });

  test('a request to share a scope is refused with its mode, also in one statement with one for a permit of it', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });
    await granted(kernel, { mode: 'permit' });

    const [sharing, beside] = await settled(kernel, [shared(), permit()]);

    expect(sharing).toMatchObject(MODE_REFUSED);
    expect(beside).toMatchObject({ value: { outcome: 'granted' } });
  });

  test('a request that has waited to share a scope is refused, also in one statement with one for a permit of it', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 3 });
    await granted(kernel, { mode: 'permit' });
    const waiting = shared({ isQueued: true });
    await kernel.store.general.$executeRaw`
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until, mode)
      values ('lease', 'test', 'thing', ${waiting.leaseId}::uuid, 'w', 'p',
        clock_timestamp() + interval '1 hour', 'shared')`;

    const [sharing, beside] = await settled(kernel, [waiting, permit()]);

    expect(sharing).toMatchObject(MODE_REFUSED);
    expect(beside).toMatchObject({ value: { outcome: 'granted' } });
  });

  test('a request for a permit of a scope that is held alone is refused with its mode, also in one statement with one for it alone', async () => {
    const kernel = await openKernel();
    const sharing = await granted(kernel, { mode: 'shared' });
    await kernel.leases.release('lease', releaseOf(sharing));
    await granted(kernel, { mode: 'exclusive' });
    await declarePermits(kernel, { perKey: 3 });

    const asked = [aRequest({ mode: 'exclusive' }), permit()];
    const [alone, permitted] = await settled(kernel, asked);

    expect(permitted).toMatchObject(MODE_REFUSED);
    expect(alone).toMatchObject({ value: { outcome: 'held' } });
  });

  test('a request to share a lease that has permits is refused, and spoils none of them', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });

    const refused = { code: 'request.invalid', details: { field: 'mode' } };
    await expect(kernel.leases.grant(shared())).rejects.toMatchObject(refused);
    const afterwards = await outcomes(kernel, [permit(), permit()]);

    expect(afterwards).toEqual(['granted', 'granted']);
  });

  test('a look at what a request would meet makes no pool', async () => {
    const kernel = await openKernel();

    const refusal = await kernel.leases.refusal(shared());

    expect(refusal).toBeUndefined();
    expect(await kernel.store.general.$queryRaw`select name from lease`).toEqual([]);
  });
});

test('a slot that is granted in a transaction of its caller says nothing of the log before that is committed', async () => {
  const kernel = await openKernel();
  const { store } = kernel;
  await declarePermits(kernel, { perKey: 3 });
  await kernel.leases.grant(permit());
  // All that was written up to here is known to be on disk.
  await store.general.$executeRaw`select pg_switch_wal()`;

  const { within, beside } = await store.guests.$transaction(async (tx) => ({
    within: await grantWithin(store, tx, permit()),
    // Judged by what this process has seen: a log that is shorter would be that of a restored database.
    beside: await kernel.leases.grant(aRequest({ name: 'another' })),
  }));

  expect([within?.outcome, beside.outcome]).toEqual(['granted', 'granted']);
});
