/** What a request was refused once, with its idempotency key, nobody is granted with that key later. */
import { randomUUID } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createControllerClient, leaseholdErrorOf } from '@leasehold/client';
import { getUntypedClient } from '@trpc/client';
import { waitUntil } from '@leasehold/testing';
import { shareTestController, type TestController } from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { mutate } from '../testing/wire.ts';

interface Call {
  readonly path: string;
  readonly input: Record<string, unknown>;
}

interface Refusal {
  readonly code: string;
  /** The token's limits. */
  readonly limits?: object;
  readonly refused: (name: string) => Call;
  /** Another request, which would be granted. */
  readonly other: (name: string) => Call;
  /** Makes the refused request one that would be granted. */
  readonly lift?: (name: string) => Promise<unknown>;
}

let on: TestController;
let admin: string;

shareTestController(async (shared) => {
  on = shared;
  admin = (await on.token('admin')).secret;
});

const connect = (name: string, change: object = {}): Call => ({
  path: 'keys.connect',
  input: { key: { name, namespace: 'idem' }, spawn: { program: 'room' }, waitMs: 0, ...change },
});
const acquire = (name: string, change: object = {}): Call => ({
  path: 'leases.acquire',
  input: {
    namespace: ['idem'],
    key: name,
    ttlMs: 30_000,
    holder: 'alice',
    localTimeMs: 1,
    ...change,
  },
});
const acquireMany = (name: string, change: object = {}): Call => {
  const { localTimeMs, ...item } = acquire(name, change).input;
  return { path: 'leases.acquireMany', input: { localTimeMs, items: [item] } };
};
const acquireAll = (name: string, change: object = {}): Call => {
  const { namespace, key, ...rest } = acquire(name, change).input;
  const scopes = [
    { namespace, key },
    { namespace: ['idem'], key: `${name}-too` },
  ];
  return { path: 'leases.acquireAll', input: { ...rest, scopes } };
};
const tryAcquire = (name: string, change: object = {}): Call => ({
  path: 'environments.tryAcquire',
  input: {
    environment: ['idem', name],
    action: 'deploy',
    holder: 'alice',
    localTimeMs: 1,
    ...change,
  },
});
const waitingFor = (name: string): Call => ({
  path: 'environments.acquire',
  input: { ...tryAcquire(name).input, waitMs: 1_000, idempotencyKey: randomUUID() },
});

const ONLY_IDEM = { namespaces: ['idem'] };
/** Somebody else's grant, which is what stands in the way. */
const byAnother = (call: Call): Promise<unknown> =>
  mutate(on, call.path, { secret: admin, input: call.input });

const refusals: readonly (readonly [string, Refusal])[] = [
  [
    'a connect without a program for a key that nobody holds',
    {
      code: 'key.unheld',
      refused: (name) => connect(name, { spawn: undefined }),
      other: connect,
      lift: (name) => byAnother(connect(name)),
    },
  ],
  [
    'a connect in a namespace that the token may not use',
    {
      code: 'auth.forbidden',
      limits: ONLY_IDEM,
      refused: (name) => connect(name, { key: { name, namespace: 'other' } }),
      other: connect,
    },
  ],
  [
    'a connect with a program that the token may not start',
    {
      code: 'spawn.not_allowed',
      limits: { programs: ['room'] },
      refused: (name) => connect(name, { spawn: { program: 'secret' } }),
      other: connect,
    },
  ],
  [
    'a connect with arguments that no drone takes',
    {
      code: 'spawn.not_allowed',
      refused: (name) => connect(name, { spawn: { program: 'room', args: ['--fast'] } }),
      other: connect,
    },
  ],
  [
    'a connect to a datacenter that does not exist',
    {
      code: 'reservation.unknown_datacenter',
      refused: (name) => connect(name, { spawn: { program: 'room', datacenter: 'nowhere' } }),
      other: connect,
    },
  ],
  ...[acquire, acquireMany, acquireAll, tryAcquire].flatMap(
    (ask): (readonly [string, Refusal])[] => {
      const { path } = ask('');
      return [
        [
          `${path} in a namespace that the token may not use`,
          {
            code: 'auth.forbidden',
            limits: ONLY_IDEM,
            refused: (name) =>
              ask(
                name,
                path.startsWith('env') ? { environment: ['x', name] } : { namespace: ['x'] },
              ),
            other: ask,
          },
        ],
        [
          `${path} in a datacenter that does not exist`,
          {
            code: 'reservation.unknown_datacenter',
            refused: (name) => ask(name, { datacenter: 'nowhere' }),
            other: ask,
          },
        ],
        [
          `${path} of more leases than the token may hold`,
          {
            code: 'quota.exceeded',
            limits: { limits: { heldLeases: 0 } },
            refused: ask,
            other: (name) => ask(`${name}-2`),
          },
        ],
      ];
    },
  ),
  [
    'an environment for longer than is allowed',
    {
      code: 'lease.ttl_out_of_range',
      refused: (name) => tryAcquire(name, { durationMs: 1 }),
      other: tryAcquire,
    },
  ],
];

describe('an idempotency key whose request was refused', () => {
  test.each(refusals)('I7 by %s is answered so again, and grants nothing', async (_what, of) => {
    const { tokenId, secret } = await on.token('client', of.limits);
    const [name, idempotencyKey] = [randomUUID(), randomUUID()];
    if (of.refused(name).path === 'keys.connect') {
      await startTestDrone(on, { droneId: `d-${randomUUID()}` });
    }
    const send = async ({ path, input }: Call): Promise<string> =>
      codeOf(await mutate(on, path, { secret, input: keyed(input, idempotencyKey) }));

    const first = await send(of.refused(name));
    await of.lift?.(name);
    const other = await send(of.other(name));
    const again = await send(of.refused(name));

    expect([first, other, again]).toEqual([of.code, 'request.idempotency_reused', of.code]);
    const held = await on.controller.store.general.$queryRaw`
      select 1 from lease where principal = ${tokenId} and end_reason is null`;
    expect(held).toEqual([]);
  });

  test('is not granted alone what was refused in a batch that was too large', async () => {
    const { secret } = await on.token('client', { limits: { batchSize: 1 } });
    const [first, second] = [randomUUID(), randomUUID()].map((key) => {
      const { items } = acquireMany(key, { idempotencyKey: randomUUID() }).input;
      return (items as unknown[])[0];
    });

    const batch = await mutate(on, 'leases.acquireMany', {
      secret,
      input: { localTimeMs: 1, items: [first, second] },
    });
    const alone = await mutate(on, 'leases.acquireMany', {
      secret,
      input: { localTimeMs: 1, items: [first] },
    });

    expect(codeOf(batch)).toBe('quota.exceeded');
    expect(JSON.stringify(alone)).toContain('quota.exceeded');
  });

  test('is free again after a request that is not valid', async () => {
    const { secret } = await on.token('client');
    const { path, input } = acquire(randomUUID(), { idempotencyKey: randomUUID() });

    const first = await mutate(on, path, { secret, input: { ...input, holder: '' } });

    expect(first).toBe('request.invalid');
    expect(await mutate(on, path, { secret, input })).toMatchObject({ outcome: 'granted' });
  });

  test('keeps its answer when its caller may hold no more: the grant that it got is answered again', async () => {
    const { secret } = await on.token('client', { limits: { heldLeases: 1 } });
    const { path, input } = acquire(randomUUID(), { idempotencyKey: randomUUID() });
    const first = (await mutate(on, path, { secret, input })) as { lease: { leaseId: string } };

    const again = await mutate(on, path, { secret, input });

    expect(again).toMatchObject({ outcome: 'granted', lease: { leaseId: first.lease.leaseId } });
  });
});

describe('what was refused', () => {
  /** Refusals are written every other second: to ask more often only takes time. */
  const WRITTEN = { pollMs: 100 };
  const ofCall = ({ input }: Call): { namespace: string; name: string } => {
    const [given = input] = (input['items'] ?? input['scopes'] ?? []) as Record<string, unknown>[];
    const key = (given['key'] ?? given['environment']) as { name: string } | string | string[];
    if (Array.isArray(key)) return { namespace: key[0] ?? '', name: key[1] ?? '' };
    return { namespace: 'idem', name: typeof key === 'string' ? key : key.name };
  };

  test('is listed with its resource, its code and its caller, however it was asked for', async () => {
    const { secret } = await on.token('client');
    const asked = [connect, acquire, acquireMany, acquireAll, tryAcquire].map((ask) =>
      ask(randomUUID()),
    );
    for (const call of asked.slice(1)) await byAnother(call);

    const codes: string[] = [];
    for (const { path, input } of asked) {
      const change = path === 'keys.connect' ? { spawn: undefined } : {};
      codes.push(codeOf(await mutate(on, path, { secret, input: { ...input, ...change } })));
    }

    expect(codes).toEqual(['key.unheld', 'held', 'held', 'held', 'held']);
    const viewer = await on.client('viewer');
    for (const [index, call] of asked.entries()) {
      const { items } = await waitUntil(async () => {
        const page = await viewer.refusals.list.query(ofCall(call));
        return page.items.length > 0 ? page : undefined;
      }, WRITTEN);
      expect(items).toMatchObject([
        { ...ofCall(call), code: codes[index], count: 1, actor: 'test client' },
      ]);
    }
  });

  test.each(['http', 'ws'] as const)(
    'is listed when the role does not allow it, asked over %s',
    async (transport) => {
      const caller = getUntypedClient(await on.client('viewer', transport));
      const asked = [connect, acquire, acquireAll, acquireMany, tryAcquire, waitingFor].map((ask) =>
        ask(randomUUID()),
      );

      const codes: unknown[] = [];
      for (const { path, input } of asked) {
        codes.push(await caller.mutation(path, input).catch(leaseholdErrorOf));
      }

      expect(codes).toMatchObject(asked.map(() => ({ code: 'auth.forbidden' })));
      const viewer = await on.client('viewer');
      for (const call of asked) {
        const { items } = await waitUntil(async () => {
          const page = await viewer.refusals.list.query(ofCall(call));
          return page.items.length > 0 ? page : undefined;
        }, WRITTEN);
        expect(items).toMatchObject([
          {
            ...ofCall(call),
            code: 'auth.forbidden',
            count: 1,
            actor: 'test viewer',
            reason: "This needs the role client; the token's role is viewer.",
            holder: call.path === 'keys.connect' ? null : 'alice',
          },
        ]);
      }
    },
  );

  test('is listed in a sample when its caller calls too often', async () => {
    const { secret } = await on.token('client', { limits: { callsPerSecond: 1 } });
    const client = createControllerClient({ url: on.url, token: secret, transport: 'ws' });
    onTestFinished(() => client.close());
    const caller = getUntypedClient(client.api);
    const names: string[] = Array.from({ length: 4 }, () => randomUUID());

    const ended = await Promise.all(
      names.map((name) => {
        const { path, input } = acquire(name);
        return caller.mutation(path, input).catch(leaseholdErrorOf);
      }),
    );

    expect(ended).toContainEqual(expect.objectContaining({ code: 'request.rate_limited' }));
    const viewer = await on.client('viewer');
    const { items } = await waitUntil(async () => {
      const page = await viewer.refusals.list.query({ code: 'request.rate_limited' });
      return page.items.length > 0 ? page : undefined;
    }, WRITTEN);
    expect(items.length).toBeLessThan(names.length);
    for (const { name, actor, holder } of items) {
      expect({ isAsked: names.includes(name), actor, holder }).toEqual({
        isAsked: true,
        actor: 'test client',
        holder: 'alice',
      });
    }
  });

  test('is not listed of callers without a token, nor of what is not valid', async () => {
    const { secret } = await on.token('viewer');
    const [stranger, wrong, known] = [
      connect(randomUUID()),
      acquire(randomUUID()),
      acquire(randomUUID()),
    ];

    const codes = [
      await mutate(on, stranger.path, { secret: `lh_${'x'.repeat(43)}`, input: stranger.input }),
      await mutate(on, wrong.path, { secret, input: { ...wrong.input, ttlMs: 'long' } }),
      await mutate(on, known.path, { secret, input: known.input }),
    ];

    expect(codes).toEqual(['auth.required', 'auth.forbidden', 'auth.forbidden']);
    const viewer = await on.client('viewer');
    // What was noted before it is written with it, or before.
    await waitUntil(
      async () => (await viewer.refusals.list.query(ofCall(known))).items.length > 0,
      WRITTEN,
    );
    for (const call of [stranger, wrong]) {
      expect((await viewer.refusals.list.query(ofCall(call))).items).toEqual([]);
    }
  });

  test('names no caller to readers of a namespace that it may not use', async () => {
    const { secret } = await on.token('client', { namespaces: ['elsewhere'] });
    const calls = [connect(randomUUID()), acquire(randomUUID(), { holder: 'a message' })];

    for (const { path, input } of calls) {
      expect(codeOf(await mutate(on, path, { secret, input }))).toBe('auth.forbidden');
    }

    const viewer = await on.client('viewer');
    for (const call of calls) {
      const items = await waitUntil(async () => {
        const page = await viewer.refusals.list.query(ofCall(call));
        return page.items.length > 0 ? page.items : undefined;
      }, WRITTEN);
      expect(items).toMatchObject([
        { code: 'auth.forbidden', actor: 'without access', holder: null },
      ]);
      expect(JSON.stringify(items)).not.toMatch(/a message|test client/u);
    }
  });

  test('is not listed for a reader of other namespaces', async () => {
    const { secret } = await on.token('viewer', { namespaces: ['elsewhere'] });

    const answer = await fetch(`${on.url}/trpc/refusals.list`, {
      headers: { authorization: `Bearer ${secret}` },
    });

    expect(await answer.json()).toMatchObject({ result: { data: { items: [] } } });
  });
});

function keyed(input: Record<string, unknown>, idempotencyKey: string): object {
  const { items } = input as { items?: object[] };
  if (items === undefined) return { ...input, idempotencyKey };
  return { ...input, items: items.map((item) => ({ ...item, idempotencyKey })) };
}

/** The code of an answer, or its outcome. */
function codeOf(answer: unknown): string {
  if (typeof answer === 'string') return answer;
  const { results } = answer as { results?: [object] };
  const { error, outcome = 'answered' } = (results?.[0] ?? answer) as {
    error?: { code: string };
    outcome?: string;
  };
  return error?.code ?? outcome;
}
