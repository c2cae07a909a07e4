import { ServerResponse } from 'node:http';
import { PROCEDURES, type DeclaredProcedure } from '@leasehold/api';
import { KEY_LADDERS } from '@leasehold/keys-core';
import { createTestDatabase, setOddly, someOf, waitUntil } from '@leasehold/testing';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { describedApi, ERROR_PLACE, type DescribedApi } from '../testing/described-api.ts';
import { withoutCursor } from '../testing/odd-values.ts';
import { rightInputs } from '../testing/right-inputs.ts';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { acquireLease, refOf, wanted } from '../testing/wire-leases.ts';
import { call, input as inAddress, mutate } from '../testing/wire.ts';
import { STALL_MS_MAX } from './sockets/slow-readers.ts';

type Kind = DeclaredProcedure['type'];

const KINDS = [...PROCEDURES].map(([path, { type }]) => [path, type] as const);

const OF_DRONES = new Set([
  'keys.renew',
  'backends.report',
  'drones.heartbeat',
  'drones.goodbye',
  'drones.ack',
  'drones.answer',
]);
const GATEWAY = { url: 'https://rooms.example.com', hosts: null };
const OF_GATEWAYS = new Set(['gateway.route', 'gateway.handOver', 'gateway.sync']);
const methodOf = (kind: Kind): 'get' | 'post' => (kind === 'mutation' ? 'post' : 'get');

/** For tests that do not need {@link filled}. */
let shared: TestController;

shareTestController((opened) => {
  shared = opened;
});

/** A secret whose caller may call the procedure. */
async function secretsOf(on: TestController): Promise<(path: string) => string> {
  const [admin, peer, drone] = await Promise.all([
    on.token('admin'),
    on.token('peer'),
    on.token('drone'),
  ]);
  const gateway = await on.token('gateway');
  return (path) => {
    if (OF_GATEWAYS.has(path)) return gateway.secret;
    if (path.startsWith('peer.')) return peer.secret;
    return OF_DRONES.has(path) ? drone.secret : admin.secret;
  };
}

/** Something of every kind: held, waited for, declared, reserved, denied. */
async function filled(on: TestController) {
  const drone = await startTestDrone(on);
  await (await startTestDrone(on, { droneId: 'd2', programs: [] })).goodbye();
  const { secret } = await on.token('admin');
  const act = (path: string, input: unknown): Promise<unknown> =>
    mutate(on, path, { secret, input });
  const { backendId } = (await act('keys.connect', {
    key: { name: 'k', namespace: 'odd' },
    spawn: { program: 'room' },
  })) as { backendId: string };
  await drone.report({ backendId, status: 'ready', address: '127.0.0.1:21000' });
  const lease = await acquireLease(on, secret, {
    namespace: ['odd'],
    key: 'k',
    metadata: { a: 1 },
  });
  const held = wanted({ namespace: ['odd'], key: 'k', holder: 'bob', idempotencyKey: 'bob' });
  const waiting = act('leases.acquire', { ...held, waitMs: 60_000 });
  onTestFinished(async () => {
    await act('leases.cancel', { idempotencyKey: 'bob' });
    await waiting;
  });
  await acquireLease(on, secret, { namespace: ['odd'], key: 'many', mode: 'shared' });
  await act('environments.tryAcquire', {
    environment: ['odd', 'prod'],
    action: 'deploy',
    holder: 'alice',
    localTimeMs: 1,
  });
  const { freeze } = (await act('environments.freeze', {
    environment: ['odd', 'frozen'],
    reason: 'why',
    until: new Date(Date.now() + 3_600_000).toISOString(),
  })) as { freeze: { freezeId: string } };
  await act('leases.declare', { declarations: [{ namespace: ['odd'], ttlMs: 30_000 }] });
  const token = (await act('tokens.create', { name: 'a', role: 'client' })) as { tokenId: string };
  const invited = (await act('people.invite', { email: 'ada@example.org', role: 'viewer' })) as {
    person: { personId: string };
  };
  const bulk = (await act('bulk.start', {
    action: 'blockRenewal',
    reason: 'why',
    items: [refOf(lease)],
  })) as { bulkId: string };
  return {
    session: { droneId: 'd1', clockId: drone.clockId, session: drone.session() },
    backendId,
    lease,
    tokenId: token.tokenId,
    personId: invited.person.personId,
    bulkId: bulk.bulkId,
    freezeId: freeze.freezeId,
  };
}

/** Inputs whose answers have something in them, beside the right ones of `rightInputs`. */
function fullInputs(
  made: Awaited<ReturnType<typeof filled>>,
): readonly (readonly [string, unknown])[] {
  const { lease, backendId, tokenId, personId, bulkId, freezeId } = made;
  const named = { namespace: 'odd', name: 'k' };
  const environment = { environment: ['odd', 'prod'] };
  const resolved = { key: ['odd', 'k'] };
  const scopes = [
    { namespace: ['odd'], key: 'one' },
    { namespace: ['odd'], key: 'two', mode: 'shared' },
  ];
  const together = { scopes, ttlMs: 30_000, holder: 'both', localTimeMs: 1 };
  return [
    ['keys.connect', { key: { namespace: 'odd', name: 'k' } }],
    ...['audit', 'backends', 'drones', 'environments', 'events', 'keys', 'leases', 'people']
      .concat('reservations', 'tokens')
      .map((group) => [`${group}.list`, {}] as const),
    ...['waiters', 'history', 'get', 'why'].map((name) => [`leases.${name}`, named] as const),
    ...['waiters', 'history', 'get'].map((name) => [`keys.${name}`, named] as const),
    ...['history', 'get', 'why'].map((name) => [`environments.${name}`, environment] as const),
    // Held by several: read by a statement of its own.
    ['leases.get', { namespace: 'odd', name: 'many' }],
    ['environments.freezes', {}],
    ['environments.unfreeze', { freezeId, reason: 'why' }],
    ...['declared', 'contention', 'mostWaited', 'tree'].map(
      (name) => [`leases.${name}`, {}] as const,
    ),
    ...['resolve', 'get'].map((name) => [`reservations.${name}`, resolved] as const),
    ['gateway.route', { key: named }],
    ['gateway.sync', { gatewayId: 'g1', version: '1', connections: 0, routes: 0, uses: [] }],
    ['backends.get', { backendId }],
    ['tokens.get', { tokenId }],
    ['bulk.get', { bulkId }],
    ['bulk.items', { bulkId }],
    ['people.setRole', { personId, role: 'client' }],
    ['people.resetPassword', { personId }],
    ['people.signOutEverywhere', { personId }],
    ['people.disable', { personId }],
    ['people.enable', { personId }],
    ['leases.acquire', wanted({ namespace: ['odd'], key: 'k' })],
    ['leases.acquireAll', together],
    ['leases.acquireMany', { localTimeMs: 1, items: [{ key: 'no' }, withoutTime(wanted())] }],
    ['leases.allowRenewal', { leaseId: lease.leaseId, reason: 'why' }],
    ['leases.heartbeat', { localTimeMs: 1, renewals: [refOf(lease), {}] }],
    ['leases.revoke', { leaseId: lease.leaseId, mode: 'graceful', reason: 'why' }],
    ['leases.cancel', { idempotencyKey: 'bob' }],
    ['leases.releaseMany', { items: [refOf(lease), {}] }],
    ['tokens.revoke', { tokenId }],
    ['backends.terminate', { backendId, mode: 'soft', reason: 'why' }],
  ];
}

/** What ends things that the others need. */
function lastInputs({
  bulkId,
}: Awaited<ReturnType<typeof filled>>): readonly (readonly [string, unknown])[] {
  return [
    ['bulk.abort', { bulkId }],
    ['drones.drain', { droneId: 'd1', reason: 'why' }],
    ['drones.undrain', { droneId: 'd1', reason: 'why' }],
    ['drones.markLost', { droneId: 'd1', reason: 'why' }],
    ['drones.remove', { droneId: 'd2', reason: 'why' }],
  ];
}

/** Without a second datacenter, a person with a password, or a drone that answers, only errors can be compared. */
const REFUSED_HERE = [
  'backends.logs',
  'datacenters.giveUp',
  'datacenters.takeBack',
  'gateway.handOver',
  'people.resetPassword',
  'reservations.move',
  'reservations.requestMove',
  'webhook.test',
  'peer.move',
];

function withoutTime({ localTimeMs: _, ...item }: Record<string, unknown>): object {
  return item;
}

/** Calls, and says what is wrong with the answer by the description. */
async function problemWith(
  on: TestController,
  api: DescribedApi,
  asked: { readonly path: string; readonly kind: Kind; readonly input: unknown; secret: string },
): Promise<{ status: number; problem: string | undefined }> {
  const { path, kind, input, secret } = asked;
  const { status, body } =
    kind === 'mutation'
      ? await call(on, `/trpc/${path}`, { body: JSON.stringify(input), secret })
      : await call(on, `/trpc/${path}${inAddress(input)}`, { secret });
  const place = status === 200 ? api.answerOf(path, methodOf(kind)) : ERROR_PLACE;
  return { status, problem: api.problemOf(place, body) };
}

describe('/openapi.json', () => {
  let api: DescribedApi;
  beforeAll(async () => {
    api = await describedApi();
  });

  test('is served to anyone, and is the description in the sources', async () => {
    const response = await fetch(`${shared.url}/openapi.json`);

    expect(response.headers.get('content-type')).toContain('application/json');
    expect(await response.json()).toMatchObject({
      openapi: '3.1.0',
      paths: { '/trpc/leases.acquire': { post: { operationId: 'leases.acquire' } } },
    });
  });

  // In the gate, odd settings stand for the usual ones too.
  const settings = someOf([
    [', on a database where every setting of a session is odd', setOddly],
    ['', () => Promise.resolve()],
  ] as const);

  test.each(settings)(
    'real answers of a controller, and its errors, are what the description says%s',
    { timeout: 120_000 },
    async (_where, set) => {
      const { url: databaseUrl } = await createTestDatabase();
      await set(databaseUrl);
      const on = await startTestController({
        databaseUrl,
        gateway: GATEWAY,
        ladder: KEY_LADDERS.standard,
      });
      const made = await filled(on);
      const secretOf = await secretsOf(on);
      const right = Object.entries(await rightInputs(made.session, made.backendId));
      const kinds = new Map<string, Kind>(KINDS);
      const problems: string[] = [];
      const answered = new Set<string>();

      const last = lastInputs(made);
      // Its drone has sent one heartbeat.
      const first = right.filter(([path]) => path === 'keys.connect');
      for (const [path, input] of [...first, ...fullInputs(made), ...right, ...last]) {
        const kind = kinds.get(path) ?? 'query';
        if (kind === 'subscription') continue;
        const asked = { path, kind, input: withoutCursor(Object(input) as object) };
        const { status, problem } = await problemWith(on, api, {
          ...asked,
          secret: secretOf(path),
        });
        if (status === 200) answered.add(path);
        if (problem !== undefined) problems.push(`${path}: ${problem}`);
      }

      expect(problems).toEqual([]);
      const unanswered = KINDS.filter(
        ([path, kind]) => kind !== 'subscription' && !answered.has(path),
      );
      expect(unanswered.map(([path]) => path)).toEqual(REFUSED_HERE);
    },
  );

  test('every right input is one by the description, and a wrong one is not', async () => {
    const session = { droneId: 'd1', clockId: crypto.randomUUID(), session: 1 };
    const inputs = Object.entries(await rightInputs(session, 'b-1'));
    const noInput = new Set([
      'events.head',
      'events.changes',
      'session.get',
      'settings.list',
      'gateway.list',
      'webhook.get',
      'webhook.test',
      'peer.ping',
      'peer.offers',
    ]);
    const kinds = new Map<string, Kind>(KINDS);
    const problems: string[] = [];

    for (const [path, input] of inputs.filter(([name]) => !noInput.has(name))) {
      const place = api.inputOf(path, methodOf(kinds.get(path) ?? 'query'));
      const problem = api.problemOf(place, input);
      if (problem !== undefined) problems.push(`${path}: ${problem}`);
      if (api.problemOf(place, { ...input, unknownField: 1 }) === undefined) {
        problems.push(`${path}: an unknown field is right`);
      }
    }

    expect(problems).toEqual([]);
  });

  test.each([
    ['events.watch', anyEvent],
    ['backends.watch', aBackend],
    ['bulk.watch', aBulkAction],
  ] as const)('the events of %s are what the description says', async (path, inputOf) => {
    const { secret } = await shared.token('admin');
    const input = inAddress(await inputOf(secret));
    const leaving = new AbortController();
    onTestFinished(() => leaving.abort());

    const response = await fetch(`${shared.url}/trpc/${path}${input}`, {
      headers: { authorization: `Bearer ${secret}` },
      signal: leaving.signal,
    });
    let text = '';
    // Those with a name, such as `connected`, are of the stream itself.
    const data = (): string | undefined =>
      text
        .split('\n\n')
        .map((event) => event.trim())
        .find((event) => event.startsWith('data: ') && !/^event: /mu.test(event))
        ?.replace(/^data: (.*)(?:\nid: .*)?$/u, '$1');
    void readInto(response, (chunk) => {
      text += chunk;
    });
    const first = await waitUntil(() => data(), { what: 'an event', timeoutMs: 30_000 });

    expect(api.problemOf(api.eventOf(path), JSON.parse(first))).toBeUndefined();
  });
});

test('an answer of which its reader takes nothing is given up, also on routes that are open to everybody', async () => {
  const { secret } = await shared.token('viewer');
  const headers = { authorization: `Bearer ${secret}` };
  const watched = vi.spyOn(ServerResponse.prototype, 'setTimeout');
  onTestFinished(() => watched.mockRestore());
  const asked: [string, RequestInit?][] = [
    ['/openapi.json'],
    ['/healthz'],
    ['/nothing/there'],
    ['/%zz'],
    ['/api/auth/sign-in-options'],
    ['/trpc/leases.list'],
    ['/trpc/leases.list', { headers }],
    ['/metrics', { headers }],
  ];

  for (const [path, init] of asked) {
    watched.mockClear();
    await (await fetch(`${shared.url}${path}`, init)).text();

    expect([path, watched.mock.calls.map(([ms]) => ms)]).toEqual([path, [STALL_MS_MAX]]);
  }
});

// What is watched, and the input that watches it.

async function anyEvent(secret: string): Promise<object> {
  await acquireLease(shared, secret);
  return { afterId: 'oldest' };
}

async function aBackend(secret: string): Promise<object> {
  await startTestDrone(shared);
  const input = { key: { name: 'watched' }, spawn: { program: 'room' } };
  const made = (await mutate(shared, 'keys.connect', { secret, input })) as { backendId: string };
  return { backendId: made.backendId };
}

async function aBulkAction(secret: string): Promise<object> {
  const items = [refOf(await acquireLease(shared, secret))];
  const input = { action: 'blockRenewal', reason: 'why', items };
  const made = (await mutate(shared, 'bulk.start', { secret, input })) as { bulkId: string };
  return { bulkId: made.bulkId };
}

async function readInto(response: Response, take: (chunk: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.body ?? []) take(decoder.decode(chunk as Uint8Array));
  } catch {
    // Left by the test.
  }
}
