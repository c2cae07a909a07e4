import { describe, expect, test } from 'vitest';
import {
  aCoordinator,
  aGate,
  aUseCase,
  makeNotes,
  note,
  someoneInLine,
} from '../testing/coordinator-fixture.ts';
import { age, eventsOf, granted, openKernel } from '../testing/kernel-fixture.ts';
import { declarePermits } from '../testing/pool-fixture.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';

describe('acquireOrRenew', () => {
  test('grants a free lease, renews it with the same token, and refuses another holder', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const [alice, bob] = [aCoordinator(kernel, 'alice'), aCoordinator(kernel, 'bob')];
    const lease = aUseCase('leader', {
      willInsert: (tx) => note(tx, 'insert'),
      willHeartbeat: (tx) => note(tx, 'heartbeat'),
    });

    const first = await alice.acquireOrRenew(lease);
    const second = await alice.acquireOrRenew(lease);
    const third = await bob.acquireOrRenew(aUseCase('leader'));

    expect(first).toMatchObject({ outcome: 'granted', leaseId: lease.key() });
    expect(second).toMatchObject({
      outcome: 'renewed',
      leaseId: lease.key(),
      fencingToken: first.outcome === 'granted' ? first.fencingToken : '',
    });
    expect(third).toMatchObject({ outcome: 'held', by: 'alice' });
    expect(await notes()).toEqual(['insert', 'heartbeat']);
    expect(lease.deadlines).toHaveLength(2);
  });

  test('lets a restarted process find its lease by name, renew it and release it', async () => {
    const kernel = await openKernel();
    const first = await aCoordinator(kernel).acquireOrRenew(aUseCase('leader'));
    const restarted = aCoordinator(kernel);
    const lease = aUseCase('leader');

    const second = await restarted.acquireOrRenew(lease);

    expect(second).toMatchObject({
      ...first,
      outcome: 'renewed',
      deadlines: expect.anything() as unknown,
    });
    expect(await restarted.heartbeat(lease)).toMatchObject({ outcome: 'renewed' });
    expect(await restarted.releaseOk(lease, 'x')).toBe('released');
  });

  test('takes over an expired lease, even its own, with a new id and a larger token', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('leader');
    const ids: string[] = [];
    for (let round = 0; round < 3; round += 1) {
      const answer = await coordinator.acquireOrRenew(lease);
      ids.push(answer.outcome === 'granted' ? answer.leaseId : answer.outcome);
      await age(kernel, ids.at(-1) ?? '', 60_000);
    }

    const kinds = (await eventsOf(kernel, 'leader')).map((line) => line.split(' ')[0]);
    const reaps = await kernel.store.general.$queryRaw<unknown[]>`select from lease_reap`;
    expect(new Set(ids).size).toBe(3);
    expect(ids[0]).toBe(lease.key());
    expect(kinds).toEqual(['granted', 'expired', 'taken_over', 'expired', 'taken_over']);
    expect(reaps).toHaveLength(2);
  });

  test('C9 makes one of 32 concurrent callers the leader, and tells all others who leads', async () => {
    const kernel = await openKernel();
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });

    const answers = await Promise.all(
      Array.from({ length: 32 }, (_, index) =>
        aCoordinator(index % 2 === 0 ? kernel : other, `h${String(index)}`).acquireOrRenew(
          aUseCase('leader'),
        ),
      ),
    );

    const leaders = answers.filter((answer) => answer.outcome === 'granted');
    const told = new Set(answers.flatMap((answer) => (answer.outcome === 'held' ? answer.by : [])));
    expect(leaders).toHaveLength(1);
    expect(told.size).toBe(1);
    expect(await eventsOf(kernel, 'leader')).toHaveLength(1);
  });

  test('overtakes no caller that waits in line, and still renews for the holder', async () => {
    const kernel = await openKernel({ databaseUrl: await createSlowDatabase() });
    const [alice, bob] = [aCoordinator(kernel, 'alice'), aCoordinator(kernel, 'bob')];
    const lease = aUseCase('leader');
    await alice.acquireOrRenew(lease);
    const cancel = new AbortController();
    const waiting = bob.acquire(aUseCase('leader'), 20_000, { signal: cancel.signal });
    await someoneInLine(kernel);

    const renewed = await alice.acquireOrRenew(lease);
    await alice.releaseOk(lease, 'x');
    const after = await alice.acquireOrRenew(aUseCase('leader'));

    expect(renewed.outcome).toBe('renewed');
    expect(after.outcome).toBe('held');
    expect(await waiting).toMatchObject({ outcome: 'granted' });
  });

  test('does not renew a blocked lease, and still names its own holder', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const answer = await coordinator.acquireOrRenew(aUseCase('leader'));
    await kernel.store.general.$executeRaw`update lease set renewable = false`;

    expect(answer.outcome).toBe('granted');
    expect(await coordinator.acquireOrRenew(aUseCase('leader'))).toMatchObject({
      outcome: 'held',
      by: 'alice',
    });
  });

  test('does not find the lease of another principal with the same holder name', async () => {
    const kernel = await openKernel();
    await granted(kernel, { name: 'leader', holder: 'alice', principal: 'token-b' });

    const answer = await aCoordinator(kernel).acquireOrRenew(aUseCase('leader'));

    expect(answer).toMatchObject({ outcome: 'held', by: 'alice' });
  });

  test('reports its own locked row as contended, not as held, and renews it afterwards', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('leader');
    await coordinator.acquireOrRenew(lease);
    const goOn = aGate();
    const locked = aGate();
    const locking = kernel.store.guests.$transaction(async (tx) => {
      await tx.$queryRaw`select lease_id::text from lease for share`;
      locked.open();
      await goOn.opened;
    });
    await locked.opened;

    const answer = coordinator.acquireOrRenew(lease);
    await expect(answer).rejects.toMatchObject({ code: 'grant.contended' });
    goOn.open();
    await locking;

    expect(await coordinator.acquireOrRenew(lease)).toMatchObject({ outcome: 'renewed' });
  });

  test('refuses a lease for which a number of permits is declared, also one that nobody has held', async () => {
    const kernel = await openKernel();
    const lease = aUseCase('leader');
    await declarePermits(kernel, { perKey: 2 });

    const asked = aCoordinator(kernel).acquireOrRenew(lease);

    await expect(asked).rejects.toMatchObject({
      code: 'request.invalid',
      details: { field: 'mode' },
    });
  });

  test('grants nothing during a hold-off, and continues to renew', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('leader');
    await coordinator.acquireOrRenew(lease);
    await kernel.store.general.$executeRaw`
      update database_epoch set hold_off_until = clock_timestamp() + interval '50 seconds'`;

    expect(await coordinator.acquireOrRenew(lease)).toMatchObject({ outcome: 'renewed' });
    await expect(coordinator.acquireOrRenew(aUseCase('other'))).rejects.toMatchObject({
      code: 'grant.hold_off',
    });
  });
});
