import { describe, expect, onTestFinished, test } from 'vitest';
import { expectPrompt, waitUntil } from '@leasehold/testing';
import { LeaseError } from '../kernel/errors.ts';
import { KEY_LADDERS, serviceLadder } from '../kernel/ladder.ts';
import type { Grant, GrantRef } from '../kernel/lease.ts';
import { sqlStateOf } from '../postgres/database-errors.ts';
import { callHook } from '../postgres/guest-transaction.ts';
import {
  aGate,
  makeNotes,
  note,
  openSession,
  someoneWaits,
} from '../testing/coordinator-fixture.ts';
import { refsNotHeld, revokeByForce, revokeHoweverLong } from '../testing/ended-grants.ts';
import {
  age,
  aRequest,
  granted,
  type Kernel,
  openKernel,
  releaseOf,
  renewalOf,
} from '../testing/kernel-fixture.ts';
import { acquire, acquired, openLeases, SERVICE } from '../testing/lease-fixture.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';
import { fencedTransaction } from './fenced-transaction.ts';
import { lockHeld } from './sql/guard.ts';

/** Begins fenced work that writes a note and then stays open. */
async function openWork(kernel: Kernel, grant: GrantRef, boundMs?: number) {
  const gate = aGate();
  const begun = aGate();
  const done = fencedTransaction(
    kernel.store,
    grant,
    async (tx) => {
      await note(tx, 'work');
      begun.open();
      await gate.opened;
      return 'done';
    },
    { boundMs },
  );
  done.catch(() => undefined);
  // On a slow machine it may be over before it has begun.
  await Promise.race([begun.opened, done.catch(() => undefined)]);
  return { done, finish: gate.open };
}

/** Makes the commit of a transaction that has written a note evaluate an expression, and so wait. */
async function stallCommits(kernel: Kernel, expression: string): Promise<void> {
  const session = await openSession(kernel);
  await session.query(`
    create function stall() returns trigger language plpgsql as
      $$ begin perform ${expression}; return null; end $$;
    create constraint trigger stall after insert on note deferrable initially deferred
      for each row execute function stall()`);
}

describe('fencedTransaction', () => {
  test.each(['lease', 'key', 'environment'] as const)(
    'commits work under a grant of the face %s, and returns its result',
    async (face) => {
      const kernel = await openKernel();
      const notes = await makeNotes(kernel);
      const grant = await granted(kernel, { face, ladder: KEY_LADDERS.standard });

      const result = await fencedTransaction(kernel.store, grant, async (tx) => {
        await note(tx, 'work');
        return 7;
      });

      expect(result).toBe(7);
      expect(await notes()).toEqual(['work']);
    },
  );

  test('refuses work under a grant that is expired, released, revoked, superseded or has another token', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const held = await granted(kernel);
    const refs = [
      ...(await refsNotHeld(kernel)),
      { leaseId: 'no id', fencingToken: '1' },
      { leaseId: held.leaseId, fencingToken: '1.5' },
    ];

    for (const { leaseId, fencingToken } of refs) {
      await expect(
        fencedTransaction(kernel.store, { leaseId, fencingToken }, (tx) => note(tx, 'work')),
      ).rejects.toMatchObject({ code: 'lease.not_held', details: { leaseId } });
    }
    expect(await notes()).toEqual([]);
  });

  test('commits work under several grants, and none if one of them is not in force', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const [alice, bob] = [
      await granted(kernel, { name: 'a' }),
      await granted(kernel, { name: 'b' }),
    ];

    await fencedTransaction(kernel.store, [alice, bob], (tx) => note(tx, 'both'));
    await revokeByForce(kernel, bob);
    const late = fencedTransaction(kernel.store, [alice, bob], (tx) => note(tx, 'late'));

    await expect(late).rejects.toMatchObject({
      code: 'lease.not_held',
      details: { leaseId: bob.leaseId },
    });
    expect(await notes()).toEqual(['both']);
    await expect(
      fencedTransaction(kernel.store, [], (tx) => note(tx, 'none')),
    ).rejects.toMatchObject({ code: 'request.invalid', details: { field: 'grant' } });
  });

  test.each([
    ['first', ['short', 'long']],
    ['last', ['long', 'short']],
  ])(
    'bounds work under several grants by the one that expires first, also if it is granted %s',
    async (_when, names) => {
      const kernel = await openKernel({ databaseUrl: await createSlowDatabase() });
      const notes = await makeNotes(kernel);
      const grants: Grant[] = [];
      for (const name of names) {
        const ladder = serviceLadder(name === 'short' ? 1_000 : 60_000);
        grants.push(await granted(kernel, { name, ladder }));
      }

      const late = fencedTransaction(kernel.store, grants, async (tx) => {
        await note(tx, 'work');
        await tx.$queryRaw`select pg_sleep(60)::text`;
      });

      const error = await late.catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'request.deadline' });
      const { boundMs } = (error as LeaseError).details as { readonly boundMs: number };
      expect(boundMs).toBeLessThan(1_100);
      expect(await notes()).toEqual([]);
    },
  );

  test('rolls work under several grants back if any of them ends meanwhile', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const [alice, bob] = [
      await granted(kernel, { name: 'a' }),
      await granted(kernel, { name: 'b' }),
    ];

    const work = fencedTransaction(kernel.store, [alice, bob], async (tx) => {
      await note(tx, 'work');
      await kernel.leases.release('lease', releaseOf(bob));
    });

    await expect(work).rejects.toMatchObject({ details: { leaseId: bob.leaseId } });
    expect(await notes()).toEqual([]);
  });

  test('an error in the work rolls it back and is passed on unchanged', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const grant = await granted(kernel);
    const thrown = new TypeError('mine');

    const work = fencedTransaction(kernel.store, grant, async (tx) => {
      await note(tx, 'work');
      throw thrown;
    });

    await expect(work).rejects.toBe(thrown);
    expect(await notes()).toEqual([]);
  });

  test('I3 a takeover waits for the work to commit, although the lease has expired', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const grant = await granted(kernel);
    const work = await openWork(kernel, grant);
    await age(kernel, grant.leaseId, 60_000);

    const [refused] = await Promise.all([
      kernel.leases.grant(aRequest({ holder: 'bob' })),
      someoneWaits(kernel),
    ]);
    work.finish();
    const result = await work.done;
    const regrant = await granted(kernel, { holder: 'bob' });

    expect(refused).toMatchObject({ outcome: 'held', by: { leaseId: grant.leaseId } });
    expect(result).toBe('done');
    expect(await notes()).toEqual(['work']);
    expect(regrant.previous?.leaseId).toBe(grant.leaseId);
  });

  test('a renewal passes at once beside the work, and does not disturb it', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const grant = await granted(kernel);
    const work = await openWork(kernel, grant);

    const renewed = await kernel.leases.renew('lease', renewalOf(grant));
    work.finish();

    expect(renewed.outcome).toBe('renewed');
    expect(await work.done).toBe('done');
    expect(await notes()).toEqual(['work']);
  });

  test('C55 a revoke during the work succeeds, and the work is rolled back', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const grant = await granted(kernel);
    const work = await openWork(kernel, grant);

    await revokeByForce(kernel, grant);
    work.finish();

    await expect(work.done).rejects.toMatchObject({ code: 'lease.not_held' });
    expect(await notes()).toEqual([]);
  });

  test('C55 a revoke that comes after the last check waits for the commit', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const grant = await granted(kernel);
    await stallCommits(kernel, 'pg_advisory_xact_lock(1)');
    const session = await openSession(kernel);
    await session.query('select pg_advisory_lock(1)');
    const work = fencedTransaction(kernel.store, grant, (tx) => note(tx, 'work'));
    work.catch(() => undefined);
    await someoneWaits(kernel);

    const ended: string[] = [];
    const revoked = revokeHoweverLong(kernel, grant).then(() => ended.push('revoked'));
    revoked.catch(() => undefined);
    await someoneWaits(kernel, 2);
    const before = [...ended];
    await session.query('select pg_advisory_unlock(1)');
    await Promise.all([work.then(() => ended.push('committed')), revoked]);

    expect(before).toEqual([]);
    expect(ended.sort()).toEqual(['committed', 'revoked']);
    expect(await notes()).toEqual(['work']);
    await expect(
      fencedTransaction(kernel.store, grant, () => Promise.resolve()),
    ).rejects.toMatchObject({ code: 'lease.not_held' });
  });

  test('a release of the grant during the work rolls the work back', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const grant = await granted(kernel);
    const work = await openWork(kernel, grant);

    const released = await kernel.leases.release('lease', releaseOf(grant));
    work.finish();

    expect(released).toBe('released');
    await expect(work.done).rejects.toMatchObject({ code: 'lease.not_held' });
    expect(await notes()).toEqual([]);
  });

  test.each(['lease', 'environment'] as const)(
    'C51 beside open work under it, a refused request for the %s and its renewal are answered while it is open, without a lock',
    async (face) => {
      const on = await openLeases({}, face);
      await makeNotes(on);
      const lease = await acquired(on);
      const work = await openWork(on, lease);
      const session = await openSession(on);
      await session.query(`set lock_timeout = '1ms'`);
      const outcomes = new Set<string>();

      // The work stays open until both are answered: who waited for its lock would never be answered.
      outcomes.add((await acquire(on, { holder: 'bob' })).outcome);
      const renewals = [lease];
      const [answer] = await on.service.heartbeat({ localTimeMs: 0, renewals }, SERVICE);
      outcomes.add(String(answer?.outcome));
      // No refused request has left a lock behind that the holder's own renewal would meet.
      const { rowCount } = await session.query(
        'select from lease where lease_id = $1 for no key update nowait',
        [lease.leaseId],
      );
      work.finish();

      expect([...outcomes]).toEqual(['held', 'renewed']);
      expect(rowCount).toBe(1);
      expect(await work.done).toBe('done');
    },
  );

  test('the unique index on lease_id is full, neither partial nor of an expression', async () => {
    const kernel = await openKernel();

    const rows = await kernel.store.general.$queryRaw<unknown[]>`
      select i.indisunique, i.indpred is null as is_whole, i.indexprs is null as is_plain,
        a.attname::text
      from pg_index i
      join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
      where i.indexrelid = 'lease_lease_id_key'::regclass and i.indnkeyatts = 1 and i.indisvalid`;

    expect(rows).toEqual([
      { indisunique: true, is_whole: true, is_plain: true, attname: 'lease_id' },
    ]);
  });

  test('runs at READ COMMITTED, and sets the bounds of the lease on the server for itself alone', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel, { ladder: serviceLadder(5_000) });
    const long = await granted(kernel, { name: 'long' });
    const settings = (ref: Grant): Promise<Record<string, number | string>[]> =>
      fencedTransaction(
        kernel.store,
        ref,
        (tx) =>
          tx.$queryRaw`
            select current_setting('transaction_isolation') as isolation,
              (select setting::int from pg_settings where name = 'statement_timeout') as statement,
              (select setting::int from pg_settings where name = 'idle_in_transaction_session_timeout') as idle`,
      );

    const [ofShort] = await settings(grant);
    const [ofLong] = await settings(long);
    const [after] = await kernel.store.guests.$queryRaw<{ idle: string }[]>`
      select current_setting('idle_in_transaction_session_timeout') as idle`;

    expect(ofShort?.['isolation']).toBe('read committed');
    expect(ofShort?.['statement']).toBe(ofShort?.['idle']);
    expect(ofShort?.['idle']).toBeGreaterThan(3_000);
    expect(ofShort?.['idle']).toBeLessThanOrEqual(5_000);
    expect(ofLong).toMatchObject({ statement: 10_000, idle: 10_000 });
    expect(after?.idle).toBe('5s');
  });

  test('C56 work that is left idle is ended by the server, and the resource is granted again', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel, { ladder: serviceLadder(1_000) });
    const session = await openSession(kernel);
    await session.query('begin');
    // The first statement of fenced work, of a process that never answers again.
    const paused = await openKernel({ databaseUrl: kernel.databaseUrl });
    const end = aGate();
    onTestFinished(end.open);
    const never = paused.store.guests.$transaction(async (tx) => {
      await lockHeld(tx, grant, 10_000);
      await end.opened;
    });
    never.catch(() => undefined);

    const regrant = await waitUntil(
      async () => {
        const outcome = await kernel.leases.grant(aRequest({ holder: 'bob' }));
        return outcome.outcome === 'granted' ? outcome.grant : undefined;
      },
      { withinMs: 5_000 },
    );

    expect(regrant.previous?.leaseId).toBe(grant.leaseId);
    expectPrompt(regrant.grantedAt - grant.expiresAt, 1_000 + 1_000);
  });

  test('work that goes on past its bound is rolled back, whether it waits in the process or in a statement', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const grant = await granted(kernel);

    const here = await openWork(kernel, grant, 150);
    const there = fencedTransaction(
      kernel.store,
      grant,
      async (tx) => {
        await note(tx, 'work');
        await tx.$queryRaw`select pg_sleep(60)::text`;
      },
      { boundMs: 150 },
    );
    there.catch(() => undefined);

    const late = { code: 'request.deadline', details: { boundMs: 150 } };
    await expect(here.done).rejects.toMatchObject(late);
    await expect(there).rejects.toMatchObject(late);
    expect(await notes()).toEqual([]);
    here.finish();
  });

  test('passes on that a statement was cancelled long before the bound', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const grant = await granted(kernel);

    const bounded = fencedTransaction(kernel.store, grant, async (tx) => {
      await note(tx, 'work');
      await tx.$queryRaw`select set_config('statement_timeout', '1', true)`;
      await tx.$queryRaw`select pg_sleep(60)::text`;
    });

    const error = await bounded.catch((thrown: unknown) => thrown);
    expect(error).not.toBeInstanceOf(LeaseError);
    expect(sqlStateOf(error)).toBe('57014');
    expect(await notes()).toEqual([]);
  });

  test('is refused from within a hook, where it would wait for its own transaction', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);

    const work = callHook(() => fencedTransaction(kernel.store, grant, () => Promise.resolve()));

    await expect(work).rejects.toMatchObject({ code: 'lease.in_hook' });
  });

  test('reports an unknown outcome when the connection breaks in the commit', async () => {
    const kernel = await openKernel();
    await makeNotes(kernel);
    const grant = await granted(kernel);
    await stallCommits(kernel, 'pg_sleep(60)');
    const session = await openSession(kernel);

    const work = fencedTransaction(kernel.store, grant, (tx) => note(tx, 'work'));
    work.catch(() => undefined);
    await waitUntil(async () => {
      const { rows } = await session.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where query = 'commit' and state = 'active' and datname = current_database()`,
      );
      return rows.length > 0;
    });

    await expect(work).rejects.toMatchObject({ code: 'request.outcome_unknown' });
  });
});
