import { describe, expect, onTestFinished, test } from 'vitest';
import { leaseholdErrorOf } from '@leasehold/client';
import { KEY_LADDERS } from '@leasehold/keys-core';
import {
  createTestDatabase,
  someOf,
  startEtcd,
  startFaultProxy,
  waitUntil,
} from '@leasehold/testing';
import pg from 'pg';
import { metric } from './testing/metric.ts';
import { openTestController, startTestController } from './testing/test-controller.ts';
import { call, mutate } from './testing/wire.ts';
import { acquireLease, wanted } from './testing/wire-leases.ts';
import { startTestDrone } from './testing/test-drone.ts';
import { ALONE } from './peers/peers-config.ts';

describe('metrics', () => {
  test('C36 grants and refusals are counted by the state of the key before: free, active, expired', async () => {
    const on = await startTestController();
    const drone = await startTestDrone(on);
    const client = await on.client('client');
    const spawn = { program: 'room' };
    await client.keys.connect.mutate({ key: { name: 'a' } }).catch(() => 'unheld');
    await client.keys.connect.mutate({ key: { name: 'a' }, spawn });
    await client.keys.connect
      .mutate({ key: { name: 'a', tag: 'other' }, spawn })
      .catch(() => 'tag');
    // The grant runs out in the database, so that the next grant takes over an expired key.
    await on.controller.store.general.$queryRaw`
      update lease set expires_at = clock_timestamp() where name = 'a' returning name`;
    await drone.heartbeat();
    await client.keys.connect.mutate({ key: { name: 'a' }, spawn });

    const of = (outcome: string, status: string): Promise<number> =>
      metric(on, `leasehold_grants_total{face="key",outcome="${outcome}",status="${status}"}`);

    expect(await of('denied', 'free')).toBe(1);
    expect(await of('granted', 'free')).toBe(1);
    expect(await of('denied', 'active')).toBe(1);
    expect(await of('granted', 'expired')).toBe(1);
  });

  test('renewals, statements, drones, sessions and connections are counted', async () => {
    const on = await startTestController();
    const drone = await startTestDrone(on);
    const client = await on.client('client');
    const { leaseId, fencingToken } = await client.keys.connect.mutate({
      key: { name: 'a' },
      spawn: { program: 'room' },
    });

    const { results } = await drone.renew([{ leaseId, fencingToken }]);

    expect(results).toMatchObject([{ leaseId, outcome: 'renewed' }]);
    expect(await metric(on, 'leasehold_renewals_total{face="key",outcome="renewed"}')).toBe(1);
    expect(await metric(on, 'leasehold_statement_ms_count{kind="connect"}')).toBe(1);
    expect(await metric(on, 'leasehold_batch_size_count{kind="renew"}')).toBe(1);
    expect(await metric(on, 'leasehold_drones{status="ready"}')).toBe(1);
    expect(await metric(on, 'leasehold_drone_sessions')).toBe(1);
    expect(await metric(on, 'leasehold_connections')).toBe(1);
  });
});

describe('readiness', () => {
  test('a controller whose database is read-only is not ready, says why, and is ready again without a restart', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const administrator = new pg.Client(on.databaseUrl);
    await administrator.connect();
    onTestFinished(() => administrator.end());
    const name = pg.escapeIdentifier(new URL(on.databaseUrl).pathname.slice(1));
    const set = (value: 'on' | 'off') =>
      administrator.query(`alter database ${name} set default_transaction_read_only = ${value}`);
    expect((await fetch(`${on.url}/readyz`)).status).toBe(200);

    await set('on');
    // As before a switch to another server: new sessions have it, and there are only new ones.
    await administrator.query(`
      select pg_terminate_backend(pid, 5000) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`);

    const answer = await waitUntil(async () => {
      const { status, body } = await call(on, '/readyz');
      // Its sessions were ended a moment ago: until it has new ones, that is the reason.
      const details = body.error?.data.details as { reason?: string } | undefined;
      return details?.reason === 'read_only' ? status : undefined;
    });
    expect(answer).toBe(503);
    expect(await mutate(on, 'leases.acquire', { secret, input: wanted() })).toBe(
      'store.unavailable',
    );
    await set('off');
    await waitUntil(async () => (await fetch(`${on.url}/readyz`)).status === 200);
    await acquireLease(on, secret);
  });
});

describe('stopping', () => {
  const TRANSPORTS = ['http', 'ws'] as const;

  // In the gate, each of the two waits over one of them.
  test.each(someOf(TRANSPORTS, 0, 2))(
    'a call over %s that waits for a key does not delay the stop of its controller',
    async (transport) => {
      const on = await startTestController({ ladder: KEY_LADDERS.standard });
      const drone = await startTestDrone(on);
      const key = { name: 'a' };
      const spawn = { program: 'room' };
      const client = await on.client('client', transport);
      const { backendId } = await client.keys.connect.mutate({ key, spawn });
      await drone.report({ backendId, status: 'terminating' });
      const operator = await on.client('operator');
      const waiting = client.keys.connect.mutate({ key, spawn, waitMs: 120_000 }).then(
        () => 'answered',
        (error: unknown) => leaseholdErrorOf(error)?.code,
      );
      await waitUntil(async () => (await operator.keys.waiters.query(key)).items.length === 1);

      await on.controller.close();

      expect(await waiting).toBe('request.outcome_unknown');
    },
  );

  test.each(someOf(TRANSPORTS, 1, 2))(
    'a call over %s that waits in line for a lease does not delay the stop of its controller',
    async (transport) => {
      const on = await startTestController();
      const wanted = { namespace: [], key: 'a', ttlMs: 60_000, holder: 'h', localTimeMs: 1 };
      const client = await on.client('client', transport);
      await client.leases.acquire.mutate(wanted);
      const sessions = await on.client('client', 'ws');
      const session = sessions.leases.session.subscribe(
        { clientId: 'c' },
        { onData: () => undefined },
      );
      await waitUntil(async () => (await metric(on, 'leasehold_lease_sessions')) === 1);
      const waiting = client.leases.acquire.mutate({ ...wanted, waitMs: 120_000 }).then(
        () => 'answered',
        (error: unknown) => leaseholdErrorOf(error)?.code,
      );
      await waitUntil(async () => (await metric(on, 'leasehold_waiters{face="lease"}')) === 1);

      await on.controller.close();

      expect(await waiting).toBe('request.outcome_unknown');
      session.unsubscribe();
    },
  );
});

describe('starting', () => {
  test('that fails after the reservation store was opened leaves no connection to it', async () => {
    const etcd = await startEtcd();
    onTestFinished(() => etcd.stop());
    const { hostname, port } = new URL(etcd.endpoints[0] ?? '');
    const line = await startFaultProxy({ host: hostname, port: Number(port) });
    onTestFinished(() => line.close());
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());

    const starting = openTestController({
      databaseUrl: database.url,
      datacenter: 'dc1',
      datacenters: { ...ALONE, etcd: { endpoints: [`http://127.0.0.1:${String(line.port)}`] } },
      signIn: { trustedProxies: ['nonsense'] },
    });

    await expect(starting).rejects.toThrow('nonsense');
    await waitUntil(() => line.connectionsCount === 0, { what: 'the connections to be closed' });
    expect(line.connectionsCount).toBe(0);
  });
});
