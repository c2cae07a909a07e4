import { describe, expect, test } from 'vitest';
import { LeaseError } from '../../kernel/errors.ts';
import { KEY_LADDERS } from '../../kernel/ladder.ts';
import type { GrantOutcome } from '../../kernel/lease.ts';
import { reservationIdOf } from '../../kernel/reservation.ts';
import { onlyRow } from '../../postgres/sql.ts';
import { checkEpoch } from '../../postgres/witness/epoch.ts';
import { aRequest, type Kernel, MACHINE_IDS, openKernel } from '../../testing/kernel-fixture.ts';
import { moveAway, type MoveOutcome } from './moves.ts';
import { activate, readReservationStatus } from './reservations.ts';

const KEY = ['', 'demo'];

function anId(datacenter: string): string {
  return reservationIdOf(datacenter, MACHINE_IDS.uuid());
}

function ask(kernel: Kernel, homeReservation?: string): Promise<GrantOutcome> {
  const named = { face: 'key', namespace: '', name: 'demo' } as const;
  return kernel.leases.grant(aRequest({ ...named, ladder: KEY_LADDERS.standard, homeReservation }));
}

async function isGranted(kernel: Kernel, homeReservation?: string): Promise<boolean> {
  const outcome = await ask(kernel, homeReservation).catch((error: unknown) => error);
  if (outcome instanceof LeaseError && outcome.code === 'grant.contended') return false;
  if (outcome instanceof Error) throw outcome;
  return (outcome as GrantOutcome).outcome === 'granted';
}

async function openedAt(kernel: Kernel, key = KEY): Promise<string> {
  const reservationId = anId('dc1');
  await activate(kernel.store, {
    reservationId,
    key,
    chain: [],
    tokenFloor: null,
    actor: 'test',
  });
  return reservationId;
}

function leave(kernel: Kernel, fromId: string, toId: string, key = KEY): Promise<MoveOutcome> {
  return moveAway(kernel.store, { key, fromId, toId, actor: 'test', reason: 'nearer' });
}

describe('the seal of a key', () => {
  test('nothing is granted under a reservation that was never activated', async () => {
    const kernel = await openKernel();

    expect(await isGranted(kernel, anId('dc1'))).toBe(false);
  });

  test('a grant records its home, and the key is not granted again under another home or without one', async () => {
    const kernel = await openKernel();
    const home = await openedAt(kernel);
    const outcome = await ask(kernel, home);
    if (outcome.outcome !== 'granted') throw new Error(outcome.outcome);
    const { leaseId, fencingToken } = outcome.grant;
    await kernel.store.general.$executeRaw`
      update lease set expires_at = clock_timestamp() - interval '1 second' where lease_id = ${leaseId}::uuid`;

    expect(await isGranted(kernel)).toBe(false);
    expect(await isGranted(kernel, anId('dc1'))).toBe(false);
    const again = await ask(kernel, home);

    if (again.outcome !== 'granted') throw new Error(again.outcome);
    expect(BigInt(again.grant.fencingToken)).toBeGreaterThan(BigInt(fencingToken));
  });

  test('a key that has left is not granted here, until a chain that leads back activates a reservation', async () => {
    const kernel = await openKernel();
    const first = await openedAt(kernel);
    const [away, back] = [anId('dc2'), anId('dc1')];
    const left = await leave(kernel, first, away);
    if (left.outcome !== 'sealed') throw new Error(left.outcome);

    expect(await isGranted(kernel, first)).toBe(false);
    const tokenFloor = (BigInt(left.pointer.tokenFloor) + 5_000_000n).toString();
    await activate(kernel.store, {
      reservationId: back,
      key: KEY,
      chain: [first, away],
      tokenFloor,
      actor: 'test',
    });

    expect(await isGranted(kernel, first)).toBe(false);
    const outcome = await ask(kernel, back);
    if (outcome.outcome !== 'granted') throw new Error(outcome.outcome);
    expect(BigInt(outcome.grant.fencingToken)).toBeGreaterThan(BigInt(tokenFloor));
  });

  test('of movers and callers at once, either one caller holds the key or it has left, and never both', async () => {
    const kernel = await openKernel();
    let home = await openedAt(kernel);
    for (let round = 0; round < 30; round += 1) {
      const [away, back] = [anId('dc2'), anId('dc1')];
      const asks = (): Promise<GrantOutcome>[] =>
        Array.from({ length: 3 }, () => ask(kernel, home));
      const before = round % 3 === 0 ? asks() : [];

      const [left, ...outcomes] = await Promise.allSettled([
        leave(kernel, home, away),
        ...before,
        ...asks(),
      ]);

      const grants = outcomes.flatMap((one) =>
        one.status === 'fulfilled' && one.value.outcome === 'granted' ? [one.value.grant] : [],
      );
      const hasLeft = left.status === 'fulfilled' && left.value.outcome === 'sealed';
      expect(grants.length + (hasLeft ? 1 : 0)).toBe(1);
      for (const grant of grants) {
        await kernel.store.general.$executeRaw`
          update lease set released_at = clock_timestamp(), end_reason = 'released'
          where lease_id = ${grant.leaseId}::uuid`;
      }
      if (!hasLeft) continue;
      await activate(kernel.store, {
        reservationId: back,
        key: KEY,
        chain: [home, away],
        tokenFloor: '1',
        actor: 'test',
      });
      home = back;
    }
  });

  test('a key is not granted under the active reservation of another key', async () => {
    const kernel = await openKernel();
    const home = await openedAt(kernel);
    const other = { face: 'key', namespace: '', name: 'other' } as const;

    const asked = kernel.leases.grant(
      aRequest({ ...other, ladder: KEY_LADDERS.standard, homeReservation: home }),
    );

    await expect(asked).rejects.toMatchObject({ code: 'grant.contended' });
    expect((await readReservationStatus(kernel.store.general, home, ['', 'other'])).standing).toBe(
      'pending',
    );
    expect(await isGranted(kernel, home)).toBe(true);
  });

  test('C61 a restored database grants no key and moves nothing until it knows which keys have left', async () => {
    const kernel = await openKernel();
    const home = await openedAt(kernel);
    const noKey = ['tenant', 'shard', '7'];
    const other = await openedAt(kernel, noKey);
    await checkEpoch(kernel.store.general, 1_000);
    const hear = (epoch: number): Promise<unknown> =>
      kernel.store.general.$executeRaw`
        update reservation_membership set store_id = 'an etcd', synced_epoch = ${epoch}`;
    const { epoch } = onlyRow(
      await kernel.store.general.$queryRaw<{ epoch: number }[]>`select epoch from database_epoch`,
    );
    await hear(epoch - 1);

    expect(await isGranted(kernel, home)).toBe(false);
    for (const left of [
      () => leave(kernel, home, anId('dc2')),
      () => leave(kernel, other, anId('dc2'), noKey),
    ]) {
      await expect(left()).rejects.toMatchObject({ code: 'reservation.store_unreachable' });
    }
    await hear(epoch);

    expect(await isGranted(kernel, home)).toBe(true);
    expect(await leave(kernel, other, anId('dc2'), noKey)).toMatchObject({ outcome: 'sealed' });
  });

  test('activating again changes nothing, also when the key has moved on', async () => {
    const kernel = await openKernel();
    const home = await openedAt(kernel);
    const again = { reservationId: home, key: KEY, chain: [], tokenFloor: null, actor: 'other' };

    expect(await activate(kernel.store, again)).toEqual({ standing: 'active' });
    await leave(kernel, home, anId('dc2'));

    expect((await activate(kernel.store, again)).standing).toBe('moved');
    expect((await readReservationStatus(kernel.store.general, home, KEY)).standing).toBe('moved');
  });

  test('a datacenter has one active reservation for a key', async () => {
    const kernel = await openKernel();
    await openedAt(kernel);

    const other = await activate(kernel.store, {
      reservationId: anId('dc1'),
      key: KEY,
      chain: [],
      tokenFloor: null,
      actor: 'test',
    });

    expect(other).toEqual({ standing: 'pending' });
  });
});
