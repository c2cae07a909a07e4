import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { PROCEDURES } from '@leasehold/api';
import { KEY_LADDERS } from '@leasehold/keys-core';
import { openSocket } from '../testing/raw-socket.ts';
import { startTestController, type TestController } from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { waitUntil } from '@leasehold/testing';
import { call, input as inputText, mutate, query } from '../testing/wire.ts';

/** A word that only another team may see; it is in every name that the test makes. */
const HIDDEN = 'hidden';

const ENVIRONMENT = { environment: [HIDDEN, 'hidden-env'] };
const LEASE = { namespace: [HIDDEN], key: 'hidden-lease' };
const KEY = { name: 'hidden-key', namespace: HIDDEN };

/** The input of each query that would show it. */
function inputsOf(backendId: string): Record<string, unknown> {
  const at = new Date().toISOString();
  return {
    'keys.get': KEY,
    'keys.waiters': KEY,
    'keys.history': KEY,
    'keys.at': { ...KEY, at },
    'leases.get': LEASE,
    'leases.waiters': LEASE,
    'leases.history': LEASE,
    'leases.at': { ...LEASE, at },
    'leases.why': LEASE,
    'environments.get': ENVIRONMENT,
    'environments.history': ENVIRONMENT,
    'environments.at': { ...ENVIRONMENT, at },
    'environments.why': ENVIRONMENT,
    'backends.get': { backendId },
    'drones.get': { droneId: 'd1' },
    'reservations.resolve': { key: [HIDDEN, 'hidden-key'] },
    'reservations.get': { key: [HIDDEN, 'hidden-key'] },
    'bulk.get': { bulkId: randomUUID() },
    'search.find': { text: 'hidden' },
  };
}

/** Something of every kind in a namespace that the reader may not see, with a waiter in line. */
async function fillHidden(on: TestController): Promise<string> {
  const { secret } = await on.token('client');
  await startTestDrone(on);
  const connected = (await mutate(on, 'keys.connect', {
    secret,
    input: { key: KEY, spawn: { program: 'room' } },
  })) as { backendId: string };
  const asked = { ttlMs: 60_000, holder: 'hidden-holder', localTimeMs: 1 };
  await mutate(on, 'leases.acquire', { secret, input: { ...LEASE, ...asked } });
  const waiter = await openSocket(on, secret);
  waiter.send(1, 'mutation', 'leases.acquire', { ...LEASE, ...asked, waitMs: 30_000 });
  const used = { ...ENVIRONMENT, action: 'hidden-action', holder: 'hidden-holder', localTimeMs: 1 };
  await mutate(on, 'environments.tryAcquire', { secret, input: used });
  const declaration = { namespace: [HIDDEN], ttlMs: 1_000, description: 'hidden-declaration' };
  await mutate(on, 'leases.declare', { secret, input: { declarations: [declaration] } });
  await on.controller.store.general.$executeRaw`
    insert into lease_reap (lease_id, face, namespace, name, fencing_token, attempts, next_attempt_at, last_error)
    values (gen_random_uuid(), 'lease', ${HIDDEN}, 'hidden-lease', 1, 1, clock_timestamp(), 'hidden-error')`;
  return connected.backendId;
}

/** Waits until searches find the hidden names, which a job fills in. */
async function untilFound(on: TestController): Promise<void> {
  const { secret } = await on.token('admin');
  const find = { secret, input: { text: HIDDEN } };
  const isFound = async (): Promise<boolean> =>
    JSON.stringify(await query(on, 'search.find', find)).includes(LEASE.key);
  await waitUntil(isFound, { what: 'the names that searches read' });
}

test('a token that is limited to a namespace learns nothing of another namespace from any query', async () => {
  const on = await startTestController({ ladder: KEY_LADDERS.standard });
  const inputs = inputsOf(await fillHidden(on));
  await untilFound(on);
  const everything = await on.token('admin');
  const limited = await on.token('admin', { namespaces: ['team'] });
  const seen: string[] = [];
  const leaked: string[] = [];

  for (const [path, { type }] of PROCEDURES) {
    if (type !== 'query' || path.startsWith('peer.')) continue;
    const asked = { input: inputs[path] ?? {} };
    const shows = async (secret: string): Promise<boolean> =>
      /hidden|"room"|\bbk-/u.test(JSON.stringify(await query(on, path, { secret, ...asked })));
    if (await shows(everything.secret)) seen.push(path);
    if (await shows(limited.secret)) leaked.push(path);
  }

  expect(leaked).toEqual([]);
  expect(seen).toEqual(
    expect.arrayContaining([
      'keys.get',
      'keys.history',
      'leases.get',
      'leases.waiters',
      'leases.history',
      'environments.get',
      'environments.history',
      'backends.get',
      'reservations.get',
      'keys.list',
      'leases.list',
      'leases.tree',
      'leases.contention',
      'leases.why',
      'leases.mostWaited',
      'leases.declared',
      'leases.failingCallbacks',
      'search.find',
      'leases.at',
      'environments.at',
      'environments.why',
      'environments.list',
      'backends.list',
      'drones.list',
      'events.list',
      'reservations.list',
    ]),
  );
});

/** What changes by itself. */
const PASSING =
  /"(?:asOf|remainingMs|[a-zA-Z]*At|witness|incidentId|used)":(?:"[^"]*"|[\d.]+|null)/gu;

test('what happens in other namespaces changes no answer to a token that is limited, not even a number', async () => {
  const on = await startTestController({ ladder: KEY_LADDERS.standard });
  const inputs = inputsOf(await fillHidden(on));
  await untilFound(on);
  const limited = await on.token('viewer', { namespaces: ['team'] });
  const own = await on.token('client', { namespaces: ['team'] });
  const lease = { ttlMs: 60_000, holder: 'h', localTimeMs: 1 };
  const acquire = (secret: string, of: object): Promise<unknown> =>
    mutate(on, 'leases.acquire', { secret, input: { ...lease, ...of } });
  await acquire(own.secret, { namespace: ['team'], key: 'own' });
  const answers = async (): Promise<Record<string, string>> => {
    const all: Record<string, string> = {};
    for (const [path, { type }] of PROCEDURES) {
      if (type !== 'query' || path.startsWith('peer.')) continue;
      const asked = { secret: limited.secret, input: inputs[path] ?? {} };
      all[path] = JSON.stringify(await query(on, path, asked)).replaceAll(PASSING, '');
    }
    return all;
  };
  const find = { secret: limited.secret, input: inputs['search.find'] ?? {} };
  const isFilled = async (): Promise<boolean> =>
    JSON.stringify(await query(on, 'search.find', find)).includes('"isComplete":true');
  await waitUntil(isFilled, { what: 'all names to be filled in' });
  const before = await answers();

  const other = await on.token('client');
  for (const key of ['1', '2', '3']) await acquire(other.secret, { namespace: [HIDDEN], key });

  expect(await answers()).toEqual(before);
  expect(before['events.head']).toMatch(/"lastId":"\d+\.\d+"/u);
});

test('a reader of events that is limited to a namespace is told no number of all events when its place is wrong', async () => {
  const on = await startTestController();
  await fillHidden(on);
  const limited = await on.token('viewer', { namespaces: ['team'] });
  const input = { afterId: '7.1' };

  const raw = await openSocket(on, limited.secret);
  raw.send(1, 'subscription', 'events.watch', input);
  const watched = await waitUntil(() => raw.replies.find(({ id }) => id === 1)?.error);
  const listed = await call(on, `/trpc/events.list${inputText(input)}`, { secret: limited.secret });

  for (const error of [watched, listed.body.error]) {
    expect(error?.data).toMatchObject({ leaseholdCode: 'events.other_epoch', details: {} });
    expect(error?.data).toHaveProperty('details', {});
  }
  expect(await query(on, 'events.head', { secret: limited.secret })).toEqual({
    lastId: 'oldest',
    oldestId: null,
  });
});
