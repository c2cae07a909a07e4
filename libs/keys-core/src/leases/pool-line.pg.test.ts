import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, test, vi } from 'vitest';
import { compareFencingTokens } from '../kernel/lease.ts';
import { poolTopic } from '../kernel/resource.ts';
import { hearsHints } from '../testing/kernel-fixture.ts';
import {
  acquire,
  acquired,
  aCaller,
  inLine,
  type Leases,
  openLeases,
  released,
  SERVICE,
} from '../testing/lease-fixture.ts';
import { declarePermits } from '../testing/pool-fixture.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';

const NAMESPACE = 'user.update';

async function openDeclared(permits: Parameters<typeof declarePermits>[1]): Promise<Leases> {
  const leases = await openLeases();
  await declarePermits(leases, permits, NAMESPACE);
  return leases;
}

/** Who has a ticket, the first one first: on a slow machine one may have lapsed and be prolonged later. */
async function ticketsOf({ store }: Leases, name = '42'): Promise<string[]> {
  const rows = await store.general.$queryRaw<{ waiter: string }[]>`
    select waiter from lease_waiter where face = 'lease' and name = ${name} order by id`;
  return rows.map(({ waiter }) => waiter);
}

describe('the line of a pool', () => {
  test('each permit that is released goes to the first in line, and no newcomer passes those who wait', async () => {
    const leases = await openDeclared({ perKey: 2 });
    const one = await acquired(leases, { mode: 'permit', holder: 'one' });
    const two = await acquired(leases, { mode: 'permit', holder: 'two' });
    const first = await inLine(leases, 'first', { mode: 'permit' });
    const second = await inLine(leases, 'second', { mode: 'permit' });
    await inLine(leases, 'third', { mode: 'permit' });

    await released(leases, one);
    const firstAnswer = await first.answer;
    const newcomer = await acquire(leases, { mode: 'permit', holder: 'newcomer' });
    const lineThen = await ticketsOf(leases);
    await released(leases, two);
    const secondAnswer = await second.answer;

    expect([firstAnswer.outcome, newcomer.outcome, secondAnswer.outcome]).toEqual([
      'granted',
      'held',
      'granted',
    ]);
    expect(lineThen).toEqual(['second', 'third']);
    expect(await ticketsOf(leases)).toEqual(['third']);
  });

  test('one that wants a lease alone is not starved by those who come to share it later', async () => {
    const leases = await openLeases({ databaseUrl: await createSlowDatabase() });
    const reader = await acquired(leases, { mode: 'shared', holder: 'reader' });
    const writer = await inLine(leases, 'writer');
    const late = await inLine(leases, 'late', { mode: 'shared' });
    const newcomer = await acquire(leases, { mode: 'shared', holder: 'newcomer' });

    await released(leases, reader);
    const writing = await writer.answer;
    const lineThen = await ticketsOf(leases);
    if (writing.outcome === 'granted') await released(leases, writing.lease);
    const reading = await late.answer;

    expect([newcomer.outcome, writing.outcome, lineThen, reading.outcome]).toEqual([
      'held',
      'granted',
      ['late'],
      'granted',
    ]);
  });

  test('when one that had it alone leaves, all that wait to share it are granted, up to the next that wants it alone', async () => {
    const leases = await openLeases();
    const writer = await acquired(leases, { holder: 'writer' });
    const readers = [];
    for (const holder of ['r1', 'r2', 'r3']) {
      readers.push(await inLine(leases, holder, { mode: 'shared' }));
    }
    await inLine(leases, 'next writer');
    await inLine(leases, 'r4', { mode: 'shared' });

    await released(leases, writer);
    const answers = await Promise.all(readers.map(({ answer }) => answer));

    expect(answers.map(({ outcome }) => outcome)).toEqual(['granted', 'granted', 'granted']);
    expect(await ticketsOf(leases)).toEqual(['next writer', 'r4']);
    const tokens = answers.map((one) => (one.outcome === 'granted' ? one.lease.fencingToken : '0'));
    expect(tokens.every((token) => compareFencingTokens(token, writer.fencingToken) > 0)).toBe(
      true,
    );
  });

  test('a permit of the total goes to the first in line whose key has room', async () => {
    const leases = await openDeclared({ perKey: 1, total: 2 });
    const a = await acquired(leases, { mode: 'permit', name: 'a' });
    const b = await acquired(leases, { mode: 'permit', name: 'b' });
    const behindA = await inLine(leases, 'behind a', { mode: 'permit', name: 'a' });
    const forC = await inLine(leases, 'for c', { mode: 'permit', name: 'c' });

    await released(leases, b);
    const inC = await forC.answer;
    const lineOfA = await ticketsOf(leases, 'a');
    await released(leases, a);

    expect([inC.outcome, lineOfA, (await behindA.answer).outcome]).toEqual([
      'granted',
      ['behind a'],
      'granted',
    ]);
  });

  test.each([
    ['a request that is cancelled', 'cancelled', 'permit'],
    ['an ordinary one that is cancelled', 'cancelled', undefined],
    ['an ordinary one whose time is over', 'given up', undefined],
  ] as const)('%s wakes those who wait for any key', async (_which, how, mode) => {
    const leases = await openDeclared({ perKey: 1, total: 5 });
    await hearsHints(leases);
    await acquired(leases, { mode: 'permit', name: 'a' });
    const woken = vi.fn();
    leases.store.hints.on(poolTopic({ namespace: NAMESPACE }), woken);
    const idempotencyKey = randomUUID();
    const waitMs = how === 'cancelled' ? 60_000 : 700;

    const leaving = await inLine(leases, 'leaving', { mode, name: 'a', idempotencyKey, waitMs });
    if (how === 'cancelled') await leases.service.cancel({ idempotencyKey }, SERVICE);
    await leaving.answer.catch(() => undefined);

    await waitUntil(() => woken.mock.calls.length > 0);
    expect(await ticketsOf(leases, 'a')).toEqual([]);
  });

  test('a waiter that has fallen silent holds up a permit for no longer than its ticket', async () => {
    const leases = await openDeclared({ perKey: 1 });
    const one = await acquired(leases, { mode: 'permit', holder: 'one' });
    const silent = aCaller();
    await inLine(leases, 'silent', { mode: 'permit' }, silent);
    const next = await inLine(leases, 'next', { mode: 'permit' });
    silent.fallSilent();

    await released(leases, one);

    expect((await next.answer).outcome).toBe('granted');
  });

  test('the answer of a refused caller says what is held, and by whom', async () => {
    const leases = await openDeclared({ perKey: 1, total: 5 });
    const one = await acquired(leases, { mode: 'permit', holder: 'one' });

    const refused = await acquire(leases, { mode: 'permit', holder: 'two' });

    expect(refused).toMatchObject({
      outcome: 'held',
      by: 'one',
      pool: {
        kind: 'permit',
        used: 1,
        permits: 1,
        total: { used: 1, permits: 5 },
        holders: [{ leaseId: one.leaseId, holder: 'one', mode: 'permit' }],
      },
    });
  });

  test('a second controller hands on what is released at the first', async () => {
    const here = await openDeclared({ perKey: 1 });
    const there = await openLeases({ databaseUrl: here.databaseUrl });
    const one = await acquired(here, { mode: 'permit', holder: 'one' });
    const next = await inLine(there, 'next', { mode: 'permit' });

    await released(here, one);

    expect((await next.answer).outcome).toBe('granted');
  });
});

describe('a lease that is shared after it was held alone', () => {
  test('keeps its grant and its token, and others share it at once', async () => {
    const leases = await openLeases();
    const writer = await acquired(leases, { holder: 'writer' });
    const reader = await inLine(leases, 'reader', { mode: 'shared' });

    const { leaseId, fencingToken } = writer;
    const outcome = await leases.service.downgrade({ leaseId, fencingToken }, SERVICE);
    const reading = await reader.answer;
    const other = await acquire(leases, { holder: 'other' });
    const again = await leases.service.downgrade({ leaseId, fencingToken }, SERVICE);
    const renewals = [{ leaseId, fencingToken }];
    const renewed = await leases.service.heartbeat({ localTimeMs: 1, renewals }, SERVICE);

    expect([outcome, again]).toEqual([{ outcome: 'updated' }, { outcome: 'updated' }]);
    expect([reading.outcome, other.outcome, renewed[0]?.outcome]).toEqual([
      'granted',
      'held',
      'renewed',
    ]);
    expect(await released(leases, writer)).toBe('released');
  });

  test('does so in a pool too, and is refused once it is over or for another token', async () => {
    const leases = await openLeases();
    await released(leases, await acquired(leases, { mode: 'shared' }));
    const { leaseId, fencingToken } = await acquired(leases, { holder: 'writer' });

    const wrong = await leases.service.downgrade({ leaseId, fencingToken: '1' }, SERVICE);
    const right = await leases.service.downgrade({ leaseId, fencingToken }, SERVICE);
    const reader = await acquire(leases, { mode: 'shared' });
    await leases.service.release({ leaseId, fencingToken, result: 'ok' }, SERVICE);
    const late = await leases.service.downgrade({ leaseId, fencingToken }, SERVICE);

    expect([wrong, right, reader.outcome, late]).toEqual([
      { outcome: 'refused', reason: 'superseded' },
      { outcome: 'updated' },
      'granted',
      { outcome: 'refused', reason: 'released' },
    ]);
  });

  test('is not what becomes of a permit', async () => {
    const leases = await openDeclared({ perKey: 2 });
    const { leaseId, fencingToken } = await acquired(leases, { mode: 'permit' });

    const failing = leases.service.downgrade({ leaseId, fencingToken }, SERVICE);

    await expect(failing).rejects.toMatchObject({ code: 'request.invalid' });
  });

  test('is not what becomes of a lease that has permits', async () => {
    const leases = await openDeclared({ perKey: 2 });
    const { leaseId, fencingToken } = await acquired(leases);

    const failing = leases.service.downgrade({ leaseId, fencingToken }, SERVICE);

    await expect(failing).rejects.toMatchObject({ code: 'request.invalid' });
  });
});
