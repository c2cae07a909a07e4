import { randomUUID } from 'node:crypto';
import { startEtcd, type TestEtcd } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestDatacenters, type TestDatacenters } from '../testing/test-datacenters.ts';
import { acquireLease, refOf, wanted } from '../testing/wire-leases.ts';
import { mutate, query } from '../testing/wire.ts';
import { FROM_HEADER, TO_HEADER } from './peers-config.ts';

/** One for all: so that a test can speak as a controller of another datacenter. */
const SECRET = `lh_${'s'.repeat(43)}`;

let etcd: TestEtcd;
let world: TestDatacenters;

beforeAll(async () => {
  etcd = await startEtcd();
  world = await openTestDatacenters({ names: ['dc1', 'dc2'], etcd, secretOf: () => SECRET });
  await world.allSee();
});

afterAll(async () => {
  await world.close();
  await etcd.stop();
});

const secretOf = async (
  name: string,
  role: 'viewer' | 'client' | 'operator' | 'admin',
  limits: { namespaces?: string[] } = {},
): Promise<string> => (await world.of(name).token(role, limits)).secret;

/** Calls as a controller of another datacenter does, or as somebody who has its secret. */
async function asPeer(
  path: string,
  input: unknown,
  change: { from?: string; to?: string; secret?: string } = {},
): Promise<unknown> {
  const response = await fetch(`${world.of('dc2').url}/trpc/${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${change.secret ?? SECRET}`,
      [FROM_HEADER]: change.from ?? 'dc1',
      [TO_HEADER]: change.to ?? 'dc2',
    },
    body: JSON.stringify(input),
  });
  const body = (await response.json()) as {
    result?: { data: unknown };
    error?: { data: { leaseholdCode: string } };
  };
  return body.error?.data.leaseholdCode ?? body.result?.data;
}

const caller = (change: object = {}): object => ({
  principal: 'p',
  actor: 'alice',
  role: 'operator',
  namespaces: null,
  source: '192.0.2.7',
  ...change,
});

const revoke = (leaseId: string): object => ({ leaseId, mode: 'graceful', reason: 'test' });

describe('an idempotency key that was refused here', () => {
  const asks = {
    'leases.acquire': (key: string) => ({ namespace: ['idem'], key }),
    'leases.acquireAll': (key: string) => ({ scopes: [{ namespace: ['idem'], key }] }),
    'leases.acquireMany': (key: string) => ({ namespace: ['idem'], key }),
    'environments.tryAcquire': (key: string) => ({ environment: ['idem', key], action: 'deploy' }),
  } as const;

  test.each(Object.entries(asks))('is granted by %s in no other datacenter', async (path, ask) => {
    const secret = await secretOf('dc1', 'client');
    const idempotencyKey = randomUUID();
    const asked = { ...ask(randomUUID()), holder: 'alice', idempotencyKey };
    const ttl = path.startsWith('env') ? {} : { ttlMs: 30_000 };
    const send = (datacenter: string): Promise<unknown> => {
      const item = { ...asked, ...ttl, datacenter };
      const input =
        path === 'leases.acquireMany'
          ? { localTimeMs: 1, items: [item] }
          : { ...item, localTimeMs: 1 };
      return mutate(world.of('dc1'), path, { secret, input });
    };

    const first = JSON.stringify(await send('nowhere'));
    const other = JSON.stringify(await send('dc2'));

    expect(first).toContain('reservation.unknown_datacenter');
    expect(other).toContain('request.idempotency_reused');
  });
});

test('a caller is counted where it calls, so that it uses up nothing of the others there', async () => {
  const on = world.of('dc1');
  const limits = { limits: { eventBytesPerHour: 2_000, waiters: 1 } };
  const { secret } = await on.token('client', limits);
  const there = { datacenter: 'dc2' };
  const acquire = (change: object): Promise<unknown> =>
    mutate(on, 'leases.acquire', { secret, input: wanted({ ...there, ...change }) });
  const holder = await secretOf('dc1', 'client');
  const held = await acquireLease(on, holder, there);

  const [first, second] = [1, 2].map(() => acquire({ key: held.key, waitMs: 20_000 }));
  expect(await Promise.race([first, second])).toBe('quota.exceeded');
  await mutate(on, 'leases.release', { secret: holder, input: { ...refOf(held), ...there } });
  const outcomes = (await Promise.all([first, second])).map((answer) =>
    typeof answer === 'string' ? answer : (answer as { outcome: string }).outcome,
  );
  expect(outcomes.sort()).toEqual(['granted', 'quota.exceeded']);
  const grants = [];
  for (let count = 0; count < 4; count += 1) grants.push(await acquire({}));

  expect(grants.at(-1)).toBe('request.rate_limited');
});

test('what changes nothing there is not counted, and what is written there is', async () => {
  const on = world.of('dc1');
  const limits = { limits: { eventBytesPerHour: 4_000 } };
  const { secret } = await on.token('operator', limits);
  const holder = await on.token('client', limits);
  const there = { datacenter: 'dc2' };
  const held = await acquireLease(on, holder.secret, there);
  const act = { leaseId: held.leaseId, reason: 'x'.repeat(500), ...there };
  const times = async (send: () => Promise<unknown>): Promise<unknown[]> => {
    const answers = [];
    for (let count = 0; count < 8; count += 1) answers.push(await send());
    return answers;
  };

  const update = (ref: object) => () =>
    mutate(on, 'leases.update', {
      secret: holder.secret,
      input: { ...refOf(held), ...ref, metadata: { text: 'x'.repeat(500) }, ...there },
    });
  const unknown = await times(update({ leaseId: randomUUID() }));
  const updated = await times(update({}));
  const blocked = await times(() => mutate(on, 'leases.blockRenewal', { secret, input: act }));

  expect(unknown).not.toContain('request.rate_limited');
  expect(updated[0]).toMatchObject({ outcome: 'updated' });
  expect(updated.at(-1)).toBe('request.rate_limited');
  expect(blocked.at(-1)).toBe('request.rate_limited');
});

test('leases that are acquired together there are as many calls, and as many grants', async () => {
  const on = world.of('dc1');
  const scopes = Array.from({ length: 5 }, () => ({ namespace: ['test'], key: randomUUID() }));
  const rest = { holder: 'alice', ttlMs: 30_000, localTimeMs: 1_000_000, datacenter: 'dc2' };
  const outcomeWith = async (limits: object): Promise<unknown> => {
    const { secret } = await on.token('client', { limits });
    const input = { ...rest, scopes, idempotencyKey: randomUUID() };
    return mutate(on, 'leases.acquireAll', { secret, input });
  };

  expect(await outcomeWith({ batchSize: 4 })).toBe('quota.exceeded');
  expect(await outcomeWith({ eventBytesPerHour: 5 * 500 })).toBe('request.rate_limited');
  expect(await outcomeWith({})).toMatchObject({ outcome: 'granted' });
});

describe('a lease of another datacenter', () => {
  test('is acquired, renewed, seen, and released through this one', async () => {
    const on = world.of('dc1');
    const secret = await secretOf('dc1', 'client');
    const there = { datacenter: 'dc2' };

    const lease = await acquireLease(on, secret, there);
    const name = { namespace: lease.namespace, key: lease.key };

    expect(
      await mutate(on, 'leases.heartbeat', {
        secret,
        input: { localTimeMs: 1_000_500, renewals: [refOf(lease)], ...there },
      }),
    ).toMatchObject({ results: [{ outcome: 'renewed' }] });
    expect(await query(on, 'leases.get', { secret, input: { ...name, ...there } })).toMatchObject({
      leaseId: lease.leaseId,
      datacenter: 'dc2',
    });
    expect(await query(on, 'leases.get', { secret, input: name })).toBeNull();
    expect(
      await mutate(on, 'leases.release', { secret, input: { ...refOf(lease), ...there } }),
    ).toEqual({ outcome: 'released' });
  });

  test('waits in line there, and is granted through this one', async () => {
    const on = world.of('dc1');
    const secret = await secretOf('dc1', 'client');
    const held = await acquireLease(on, secret, { datacenter: 'dc2' });
    const input = wanted({ key: held.key, holder: 'bob', waitMs: 20_000, datacenter: 'dc2' });

    const waiting = mutate(on, 'leases.acquire', { secret, input });
    await mutate(on, 'leases.release', { secret, input: { ...refOf(held), datacenter: 'dc2' } });

    expect(await waiting).toMatchObject({ outcome: 'granted' });
  });
});

describe('permits of another datacenter', () => {
  test('are declared there through this one, and are those of the leases there', async () => {
    const on = world.of('dc1');
    const secret = await secretOf('dc1', 'client');
    const namespace = [randomUUID()];
    const there = { datacenter: 'dc2' };
    const declarations = [{ namespace, ttlMs: 30_000, permits: { perKey: 2 } }];

    const declared = await mutate(on, 'leases.declare', {
      secret,
      input: { declarations, ...there },
    });
    const take = () =>
      mutate(on, 'leases.acquire', { secret, input: wanted({ namespace, key: 'k', ...there }) });
    const outcomes = [await take(), await take(), await take()];

    expect(declared).toEqual({ declared: 1 });
    expect(outcomes).toMatchObject([
      { outcome: 'granted' },
      { outcome: 'granted' },
      { outcome: 'held', pool: { permits: 2 } },
    ]);
    const of = { secret, input: { namespace } };
    expect(await query(on, 'leases.declared', of)).toMatchObject({ items: [] });
  });

  test('of a limited token are limited there', async () => {
    const declarations = [{ namespace: ['other'], ttlMs: 30_000, permits: { perKey: 2 } }];

    expect(
      await asPeer('peer.carryOut', {
        procedure: 'leases.declare',
        input: { declarations },
        caller: caller({ role: 'client', namespaces: ['team'] }),
      }),
    ).toBe('auth.forbidden');
  });
});

describe('several leases of another datacenter', () => {
  test('are acquired together through this one, or none of them is', async () => {
    const on = world.of('dc1');
    const secret = await secretOf('dc1', 'client');
    const there = { datacenter: 'dc2' };
    const held = await acquireLease(on, secret, there);
    const { namespace } = held;
    const free = randomUUID();
    const rest = { holder: 'bob', ttlMs: 30_000, localTimeMs: 1_000_000, ...there };
    const scopes = [
      { namespace, key: free },
      { namespace, key: held.key },
    ];
    const all = (change: object) =>
      mutate(on, 'leases.acquireAll', { secret, input: { ...rest, scopes, ...change } });

    const refused = await all({ idempotencyKey: randomUUID() });
    const waiting = all({ idempotencyKey: randomUUID(), waitMs: 600_000, callMs: 20_000 });
    await mutate(on, 'leases.release', { secret, input: { ...refOf(held), ...there } });
    const granted = await waiting;

    expect(refused).toMatchObject({ outcome: 'held', key: held.key });
    expect(granted).toMatchObject({
      outcome: 'granted',
      leases: [{ key: free }, { key: held.key }],
    });
    const seen = { namespace, key: free };
    expect(await query(on, 'leases.get', { secret, input: { ...seen, ...there } })).toMatchObject({
      holder: 'bob',
      datacenter: 'dc2',
    });
    expect(await query(on, 'leases.get', { secret, input: seen })).toBeNull();
  });

  test('of a limited token are limited there, whichever of them it may not hold', async () => {
    const { key, namespace, ...rest } = wanted({ datacenter: 'dc2' }) as {
      key: string;
      namespace: string[];
    };
    const scopes = [
      { namespace: ['team'], key },
      { namespace, key },
    ];

    expect(
      await asPeer('peer.carryOut', {
        procedure: 'leases.acquireAll',
        input: { ...rest, datacenter: undefined, scopes },
        caller: caller({ namespaces: ['team'] }),
      }),
    ).toBe('auth.forbidden');
  });
});

describe('an act in another datacenter', () => {
  test('is audited there with who acted, in which role, and from where', async () => {
    const lease = await acquireLease(world.of('dc1'), await secretOf('dc1', 'client'), {
      datacenter: 'dc2',
    });

    const answer = await mutate(world.of('dc1'), 'leases.revoke', {
      secret: await secretOf('dc1', 'admin'),
      input: { ...revoke(lease.leaseId), datacenter: 'dc2' },
    });

    expect(answer).toMatchObject({ outcome: 'revoking' });
    const entries = await query(world.of('dc2'), 'audit.list', {
      secret: await secretOf('dc2', 'operator'),
      input: { resource: `lease:${lease.leaseId}` },
    });
    expect(entries).toMatchObject({
      items: [{ actor: 'test admin@dc1', role: 'operator', source: '127.0.0.1' }],
    });
  });

  test('is audited there with all of that when it is the move of a key', async () => {
    const key = ['', randomUUID()];
    await mutate(world.of('dc2'), 'reservations.reserve', {
      secret: await secretOf('dc2', 'client'),
      input: { key },
    });

    const moved = await mutate(world.of('dc1'), 'reservations.move', {
      secret: await secretOf('dc1', 'operator'),
      input: { key, toDatacenter: 'dc1', reason: 'nearer' },
    });

    expect(moved).toMatchObject({ datacenter: 'dc1' });
    for (const [name, actor] of [
      ['dc1', 'test operator'],
      ['dc2', 'test operator@dc1'],
    ] as const) {
      const entries = await query(world.of(name), 'audit.list', {
        secret: await secretOf(name, 'operator'),
        input: { resource: `key:/${String(key[1])}` },
      });
      expect(entries).toMatchObject({
        items: [{ action: 'reservations.move', actor, role: 'operator', source: '127.0.0.1' }],
      });
    }
  });

  test('of a viewer is refused by the datacenter that is called, whatever the sender let through', async () => {
    const lease = await acquireLease(world.of('dc2'), await secretOf('dc2', 'client'));
    const procedure = 'leases.revoke';
    const act = { procedure, input: revoke(lease.leaseId) };

    expect(await asPeer('peer.carryOut', { ...act, caller: caller({ role: 'viewer' }) })).toBe(
      'auth.forbidden',
    );
    expect(await asPeer('peer.carryOut', { ...act, caller: caller({ role: 'client' }) })).toBe(
      'auth.forbidden',
    );
    expect(await asPeer('peer.carryOut', { ...act, caller: caller() })).toMatchObject({
      outcome: 'revoking',
    });
  });

  test('of a limited token is limited there', async () => {
    const secret = await secretOf('dc1', 'client', { namespaces: ['team'] });
    const lease = await acquireLease(world.of('dc2'), await secretOf('dc2', 'client'));
    const procedure = 'leases.acquire';

    expect(
      await mutate(world.of('dc1'), 'leases.acquire', {
        secret,
        input: wanted({ datacenter: 'dc2' }),
      }),
    ).toBe('auth.forbidden');
    expect(
      await asPeer('peer.carryOut', {
        procedure,
        input: wanted(),
        caller: caller({ namespaces: ['team'] }),
      }),
    ).toBe('auth.forbidden');
    expect(
      await query(world.of('dc1'), 'leases.get', {
        secret,
        input: { namespace: lease.namespace, key: lease.key, datacenter: 'dc2' },
      }),
    ).toBeNull();
  });
});

describe('the secret of a pair', () => {
  const ping = { procedure: 'keys.list', input: {}, caller: caller({ role: 'viewer' }) };

  test('makes nobody an administrator, and carries out nothing that is not on the list', async () => {
    for (const procedure of [
      'tokens.create',
      'people.list',
      'audit.list',
      'bulk.start',
      'peer.carryOut',
      'peer.connect',
      'keys.connect',
      'reservations.move',
      'keys.renew',
    ]) {
      expect(await asPeer('peer.carryOut', { ...ping, procedure })).toBe('auth.forbidden');
    }
    for (const role of ['admin', 'drone', 'peer']) {
      expect(await asPeer('peer.carryOut', { ...ping, caller: caller({ role }) })).toBe(
        'request.invalid',
      );
    }
    expect(await asPeer('tokens.create', { name: 'x', role: 'admin' })).toBe('auth.forbidden');
    expect(await asPeer('leases.acquire', wanted())).toBe('auth.forbidden');
  });

  test('is not accepted with an unknown name or for another datacenter, and no other secret is accepted', async () => {
    expect(await asPeer('peer.carryOut', ping)).toMatchObject({ items: expect.any(Array) as [] });
    expect(await asPeer('peer.carryOut', ping, { from: 'mars' })).toBe('auth.required');
    expect(await asPeer('peer.carryOut', ping, { from: 'dc2' })).toBe('auth.required');
    expect(await asPeer('peer.carryOut', ping, { secret: `lh_${'t'.repeat(43)}` })).toBe(
      'auth.required',
    );
    expect(await asPeer('peer.carryOut', ping, { to: 'dc3' })).toBe('peer.refused');
  });

  test('does not let a call be forwarded a second time', async () => {
    const { key, ...input } = wanted({ datacenter: 'dc1' });
    const sent = { procedure: 'leases.acquire', input: { ...input, key }, caller: caller() };
    const all = { procedure: 'keys.list', input: { datacenter: 'all' }, caller: caller() };

    expect(await asPeer('peer.carryOut', sent)).toBe('reservation.unknown_datacenter');
    expect(await asPeer('peer.carryOut', all)).toMatchObject({ unreachable: [] });
  });

  test('gets an answer to a connect whose home is elsewhere, and the connect is not forwarded', async () => {
    const name = randomUUID();
    const homeReservation = `dc1.${randomUUID()}`;
    const input = { key: { name, namespace: '', tag: '' }, homeReservation, waitMs: 0 };

    expect(await asPeer('peer.connect', { input, caller: caller({ role: 'client' }) })).toBe(
      'reservation.conflict',
    );
    const unproven = { ...input, homeReservation: `dc2.${randomUUID()}` };
    expect(
      await asPeer('peer.connect', { input: unproven, caller: caller({ role: 'client' }) }),
    ).toMatchObject({ outcome: 'elsewhere', standing: { standing: 'pending' } });
    expect(
      await asPeer('peer.connect', { input: unproven, caller: caller({ role: 'viewer' }) }),
    ).toBe('auth.forbidden');
  });
});
