import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { reapReservations, reserveRunner } from './runner-reservation.ts';
import { aGate, startService, type Service } from '../testing/service.ts';

async function aRunner(): Promise<Service> {
  const service = await startService('runners/runner-reservation.sql');
  await service.sql(`insert into runner_slot (runner, state) values ('r1', 'idle')`);
  return service;
}

async function slot({ sql }: Service): Promise<unknown> {
  const rows = await sql('select state, deployment, lease_id from runner_slot');
  return rows[0];
}

const ask = (deployment: string) => ({ runner: 'r1', deployment });

describe('runner reservation', () => {
  test('a runner is reserved while its deployment starts, and assigned when it has', async () => {
    const service = await aRunner();
    let meanwhile: unknown;

    const reservation = await reserveRunner(service.coordinator, ask('d1'), async () => {
      meanwhile = await slot(service);
    });

    expect(meanwhile).toMatchObject({ state: 'reserved', deployment: 'd1' });
    expect(reservation).toEqual({ outcome: 'assigned' });
    expect(await slot(service)).toEqual({ state: 'assigned', deployment: 'd1', lease_id: null });
  });

  test('only one of two controllers gets the runner, and the other is told who has it', async () => {
    const service = await aRunner();
    const second = service.join('second');
    const started = aGate();
    const goOn = aGate();

    const reserving = reserveRunner(service.coordinator, ask('d1'), () => {
      started.open();
      return goOn.opened;
    });
    await started.opened;
    const during = await reserveRunner(second.coordinator, ask('d2'), () => Promise.resolve());
    goOn.open();
    await reserving;
    const after = await reserveRunner(second.coordinator, ask('d2'), () => Promise.resolve());

    expect(during).toEqual({ outcome: 'taken', by: 'first', why: 'starts d1' });
    expect(after).toEqual({ outcome: 'taken', by: 'a deployment', why: null });
    expect(await slot(service)).toMatchObject({ state: 'assigned', deployment: 'd1' });
  });

  test('a deployment that does not start leaves the runner idle', async () => {
    const service = await aRunner();
    const failure = new Error('no such image');

    await expect(
      reserveRunner(service.coordinator, ask('d1'), () => Promise.reject(failure)),
    ).rejects.toBe(failure);

    expect(await slot(service)).toEqual({ state: 'idle', deployment: null, lease_id: null });
  });

  test('the lease is renewed for as long as the controller waits', async () => {
    const service = await aRunner();
    const renewals = (): Promise<unknown[]> =>
      service.ourSql('select from lease where renewed_at > granted_at');

    const reservation = await reserveRunner(service.coordinator, ask('d1'), async () => {
      await waitUntil(async () => (await renewals()).length > 0);
    });

    expect(reservation).toEqual({ outcome: 'assigned' });
  });

  test('C20 a controller that was taken for dead assigns nothing, and the next one gets the runner', async () => {
    const service = await aRunner();
    const second = service.join('second');
    const started = aGate();
    const goOn = aGate();
    const late = reserveRunner(service.coordinator, ask('d1'), () => {
      started.open();
      return goOn.opened;
    });
    await started.opened;
    await service.letLeasesExpire();
    await reapReservations(second.coordinator);
    const reaped = await slot(service);

    const next = await reserveRunner(second.coordinator, ask('d2'), () => Promise.resolve());
    goOn.open();

    expect(reaped).toMatchObject({ state: 'idle' });
    expect(next).toEqual({ outcome: 'assigned' });
    expect(await late).toEqual({ outcome: 'lost' });
    expect(await slot(service)).toMatchObject({ state: 'assigned', deployment: 'd2' });
  });
});
