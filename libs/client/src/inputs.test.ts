/** Inputs that are wrong in any way, and the contract of the controller as the judge. */
import {
  acquireInputSchema,
  connectInputSchema,
  declareInputSchema,
  moveInputSchema,
  reserveInputSchema,
  resolveInputSchema,
  tryAcquireInputSchema,
} from '@leasehold/api/contract';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createTestLeasehold } from './double/index.ts';
import { createKeys } from './keys.ts';
import { createLeasehold, type Leasehold, type LeaseholdOptions } from './index.ts';
import { createReservations } from './reservations.ts';
import { setUpLeases } from './testing/lease-setup.ts';
import { failureOf } from './testing/outcomes.ts';
import { type ControllerApi, createControllerClient } from './transport/controller-client.ts';

const circle: unknown[] = [];
circle.push(circle);
let deep: unknown = 'deep';
for (let depth = 0; depth < 20; depth += 1) deep = [deep];

const VALUES: readonly unknown[] = [
  undefined,
  null,
  true,
  false,
  0,
  1,
  5_000,
  120_000,
  120_001,
  2 ** 31,
  86_400_000,
  -1,
  0.5,
  1e9,
  NaN,
  Infinity,
  '',
  'a',
  '5000',
  'a.b',
  'a\nb',
  'a\0b',
  '\uD800',
  'A B',
  'x'.repeat(255),
  'é'.repeat(200),
  'x'.repeat(1_024),
  'x'.repeat(1_025),
  'x'.repeat(17_000),
  'granted',
  'ready',
  'dc-1',
  [],
  ['a'],
  ['a', 'b'],
  ['a.b'],
  [''],
  [5],
  Array.from({ length: 70 }, () => 'a'),
  {},
  { a: 'b' },
  { A: 5 },
  deep,
  new Date(0),
  new URL('http://a'),
];
/** What JSON has no form for: the contract never sees it. */
const UNSENDABLE: readonly unknown[] = [5n, { a: [5n] }, circle, () => 1, Symbol('s'), throwing()];

function throwing(): unknown {
  return {
    toJSON() {
      throw new Error('not to be read');
    },
  };
}

interface Field {
  readonly of: string;
  /** Whether the contract accepts the value in this field. */
  readonly isAllowed: (value: unknown) => boolean;
  /** Gives the library the value in this field. */
  readonly give: (value: unknown) => unknown;
}

const sent: unknown[] = [];
const recording = new Proxy({} as ControllerApi, {
  get: (_api, face) =>
    new Proxy(
      {},
      {
        get: (_face, call) => {
          const send = (input: unknown): Promise<unknown> => {
            sent.push([face, call, input]);
            return Promise.resolve({});
          };
          return { mutate: send, query: send };
        },
      },
    ),
});

function machineOf({ clock }: ReturnType<typeof setUpLeases>) {
  return { clock, uuid: () => 'id', random: () => 0.5 };
}

const closing = new AbortController().signal;
const reachability = {
  explain: async <T>(call: () => Promise<T>): Promise<T> => call(),
  isHopeless: () => false,
};
const acquireInput = {
  namespace: ['n'],
  key: 'k',
  ttlMs: 30_000,
  holder: 'h',
  localTimeMs: 0,
  // This library always sends one.
  idempotencyKey: 'i',
};
const tryInput = { environment: 'e', action: 'a', holder: 'h', localTimeMs: 0 };

function fieldsOf(): Field[] {
  const leasehold = createTestLeasehold();
  onTestFinished(() => leasehold.close());
  const client = leasehold.client();
  const setup = setUpLeases();
  const machine = machineOf(setup);
  const keys = createKeys({ api: recording, machine, answerMs: 1_000, reachability, closing });
  const reservations = createReservations({
    api: recording,
    machine,
    answerMs: 1_000,
    reachability,
    closing,
  });
  let count = 0;
  const key = (): string => `k-${String((count += 1))}`;
  const acquire = (name: string): Field => ({
    of: `acquire ${name}`,
    isAllowed: (value) => acquireInputSchema.safeParse({ ...acquireInput, [name]: value }).success,
    give: (value) => client.defineLease(['n']).acquire(key(), { [name]: value }),
  });
  const environment = (name: string): Field => ({
    of: `environment ${name}`,
    isAllowed: (value) => tryAcquireInputSchema.safeParse({ ...tryInput, [name]: value }).success,
    give: (value) => client.environments.tryAcquire(key(), { action: 'a', [name]: value }),
  });
  const define = (name: string): Field => ({
    of: `define ${name}`,
    isAllowed: (value) =>
      declareInputSchema.safeParse({
        declarations: [{ namespace: ['n'], ttlMs: 30_000, [name]: value }],
      }).success ||
      (name === 'ttlMs' && value === undefined),
    give: (value) => client.defineLease(['n'], { [name]: value }),
  });
  const connect = (name: string): Field => ({
    of: `connect ${name}`,
    isAllowed: (value) =>
      connectInputSchema.safeParse({ key: { name: 'k' }, spawn: { program: 'p' }, [name]: value })
        .success,
    give: (value) => keys.connect({ key: { name: 'k' }, spawn: { program: 'p' }, [name]: value }),
  });
  const spawn = (name: string): Field => ({
    of: `spawn ${name}`,
    isAllowed: (value) =>
      connectInputSchema.safeParse({ spawn: { program: 'p', [name]: value } }).success,
    give: (value) => keys.connect({ spawn: { program: 'p', [name]: value } }),
  });
  const access = (name: string): Field => {
    const given = (value: unknown) => ({
      key: { name: 'k' },
      spawn: { program: 'p' },
      access: { user: 'u', [name]: value },
    });
    return {
      of: `access ${name}`,
      isAllowed: (value) => connectInputSchema.safeParse(given(value)).success,
      give: (value) => keys.connect(given(value)),
    };
  };
  return [
    ...['user', 'claims', 'expiresInSeconds', 'mayStart', 'grantOnly'].map(access),
    ...['comment', 'metadata', 'holder', 'datacenter', 'waitMs'].map(acquire),
    ...['comment', 'metadata', 'holder', 'datacenter', 'durationMs', 'action', 'override'].map(
      environment,
    ),
    ...['description', 'ttlMs'].map(define),
    ...['waitMs', 'waitFor', 'idempotencyKey', 'key'].map(connect),
    ...['program', 'args', 'env', 'datacenter'].map(spawn),
    ...['lifetimeLimitSeconds', 'idleStopSeconds'].map(spawn),
    {
      of: 'key',
      isAllowed: (value) => acquireInputSchema.safeParse({ ...acquireInput, key: value }).success,
      give: (value) => setup.define().acquire(value as string),
    },
    {
      of: 'namespace',
      isAllowed: (value) =>
        acquireInputSchema.safeParse({ ...acquireInput, namespace: value }).success,
      give: (value) => client.defineLease(value as [], {}),
    },
    {
      of: 'environment',
      isAllowed: (value) =>
        tryAcquireInputSchema.safeParse({ ...tryInput, environment: value }).success,
      give: (value) => client.environments.tryAcquire(value as string, { action: 'a' }),
    },
    {
      of: 'reserve key',
      isAllowed: (value) => reserveInputSchema.safeParse({ key: value }).success,
      give: (value) => reservations.reserve(value as []),
    },
    {
      of: 'reserve datacenter',
      isAllowed: (value) => reserveInputSchema.safeParse({ key: ['k'], datacenter: value }).success,
      give: (value) => reservations.reserve(['k'], { datacenter: value as string }),
    },
    {
      of: 'resolve fresh',
      isAllowed: (value) => resolveInputSchema.safeParse({ key: ['k'], fresh: value }).success,
      give: (value) => reservations.resolve(['k'], { fresh: value as boolean }),
    },
    {
      of: 'move reason',
      isAllowed: (value) =>
        moveInputSchema.safeParse({ key: ['k'], toDatacenter: 'a', reason: value }).success,
      give: (value) => reservations.move(['k'], { toDatacenter: 'a', reason: value as string }),
    },
  ];
}

/** Whether a refusal names the field itself, or a part of it, both for people and for programs. */
function names(failure: unknown, field: string): boolean {
  const { message, details } = failure as { message: string; details?: { field?: string } };
  const named = details?.field ?? '';
  return named.split(/[.[]/u).includes(field) && message.startsWith(named);
}

/** A default of the library stands for it. */
const OMITTED = new Set(['acquire holder', 'environment holder']);

test('the library refuses what the contract refuses, and nothing else, naming the field', async () => {
  const wrong: unknown[] = [];
  for (const { of, isAllowed, give } of fieldsOf()) {
    for (const value of VALUES) {
      const failure = await failureOf(Promise.resolve().then(() => give(value)));
      const code = (failure as { code?: string }).code;
      const isRefused = code === 'request.invalid';
      const isExpected = isAllowed(value) || (value === undefined && OMITTED.has(of));
      const isNamed = !isRefused || names(failure, of.split(' ').at(-1) ?? '');
      if (isRefused === isExpected || !isNamed) wrong.push([of, value, failure]);
    }
  }

  expect(wrong).toEqual([]);
});

test('what JSON has no form for is refused before anything is sent', async () => {
  const wrong: unknown[] = [];
  for (const { of, give } of fieldsOf()) {
    for (const value of UNSENDABLE) {
      const failure = await failureOf(Promise.resolve().then(() => give(value)));
      if ((failure as { code?: string }).code !== 'request.invalid') wrong.push([of, failure]);
    }
  }

  expect(wrong).toEqual([]);
});

describe('a wait that is no time', () => {
  test.each([NaN, Infinity, 2 ** 31, -1, '5000', 0.5, null])(
    'of %j is refused, whether the lease is free or held',
    async (waitMs) => {
      const { wire, define } = setUpLeases();
      const wanted = { waitMs: waitMs as number };

      const free = await failureOf(define().acquire('k', wanted));
      const asRun = await failureOf(define().run('k', () => 'done', wanted));
      const asDefault = await failureOf((async () => define(wanted).acquire('k'))());
      await define().acquire('k');
      const held = await failureOf(define().acquire('k', wanted));

      for (const failure of [free, asRun, asDefault, held]) {
        expect(failure).toMatchObject({
          code: 'request.invalid',
          message: 'waitMs must be a whole number from 0 to 604800000',
          details: { field: 'waitMs' },
        });
      }
      expect(wire.acquires).toHaveLength(1);
    },
  );
});

test.each(['exclusive', 'shared'] as const)(
  'mode %s of a lease with permits is refused before anything is sent',
  async (mode) => {
    const { wire, define } = setUpLeases();

    const failure = await failureOf(define({ permits: 2 }).acquire('k', { mode }));

    expect(failure).toMatchObject({ code: 'request.invalid', details: { field: 'mode' } });
    expect(wire.acquires).toEqual([]);
  },
);

test.each([
  ['url', new URL('http://127.0.0.1:1')],
  ['url', [new URL('http://127.0.0.1:1')]],
  ['url', 5],
  ['token', 'a\nb'],
  ['transport', 'tcp'],
  ['holder', 5],
  ['holder', ''],
  ['clientName', {}],
  ['answerMs', NaN],
  ['answerMs', '10'],
  ['onConnection', 'open'],
])('createLeasehold refuses a wrong %s: %j', (field, value) => {
  const options = { url: 'http://127.0.0.1:1', token: '', [field]: value } as LeaseholdOptions;

  expect(() => createLeasehold(options)).toThrow(
    expect.objectContaining({
      code: 'request.invalid',
      message: expect.stringMatching(new RegExp(`^${field}:? must`, 'u')) as string,
    }),
  );
});

describe('an option that is not known', () => {
  const signal = AbortSignal.abort();
  /** Each public function that takes options, with all that are allowed as far as they cost nothing, and one more. */
  const CALLS: readonly [string, string, (client: Leasehold, wrong: object) => unknown][] = [
    ['defineLease', 'waitMs', (client, wrong) => client.defineLease(['n'], wrong)],
    ['acquire', 'metadata', (client, wrong) => client.defineLease(['n']).acquire('k', wrong)],
    ['tryAcquire', 'ttlMs', (client, wrong) => client.defineLease(['n']).tryAcquire('k', wrong)],
    ['run', 'waitMs', (client, wrong) => client.defineLease(['n']).run('k', () => 1, wrong)],
    [
      'an environment',
      'durationMs',
      (client, wrong) => client.environments.acquire('e', { action: 'a', ...wrong }),
    ],
    [
      'a try for an environment',
      'durationMs',
      (client, wrong) => client.environments.tryAcquire('e', { action: 'a', ...wrong }),
    ],
    [
      'withEnvironmentLease',
      'record',
      (client, wrong) =>
        client.withEnvironmentLease('e', { action: 'a', record: () => 1, ...wrong }),
    ],
    [
      'acquireAll',
      'ttlMs',
      (client, wrong) => client.acquireAll([{ namespace: ['n'], key: 'k' }], wrong),
    ],
    ['observe', 'signal', (client, wrong) => client.observe({ namespace: [], key: 'k' }, wrong)],
    [
      'keys.connect',
      'spawn',
      (client, wrong) => client.keys.connect({ key: { name: 'k' }, ...wrong }),
    ],
    [
      'the options of keys.connect',
      'signal',
      (client, wrong) => client.keys.connect({ key: { name: 'k' } }, wrong),
    ],
    ['backends.watch', 'signal', (client, wrong) => nextOf(client.backends.watch('b', wrong))],
    ['reserve', 'datacenter', (client, wrong) => client.reservations.reserve(['k'], wrong)],
    ['resolve', 'fresh', (client, wrong) => client.reservations.resolve(['k'], wrong)],
    [
      'move',
      'toDatacenter',
      (client, wrong) =>
        client.reservations.move(['k'], { toDatacenter: 'a', reason: 'r', ...wrong }),
    ],
    ['get', 'signal', (client, wrong) => client.reservations.get(['k'], wrong)],
    ['list', 'signal', (client, wrong) => client.reservations.list({}, wrong)],
    [
      'gateway.sign',
      'leaseId',
      (client, wrong) =>
        client.gateway.sign({ key: { name: 'k' }, access: { user: 'u' }, ...wrong }),
    ],
    [
      'gateway.revoke',
      'user',
      (client, wrong) => client.gateway.revoke({ reason: 'r', user: 'u', ...wrong }),
    ],
    [
      'createLeasehold',
      'transport',
      (_client, wrong) => createLeasehold({ url: 'http://127.0.0.1:1', token: '', ...wrong }),
    ],
    [
      'createControllerClient',
      'transport',
      (_client, wrong) =>
        createControllerClient({
          url: 'http://127.0.0.1:1',
          token: '',
          transport: 'http',
          ...wrong,
        }),
    ],
    [
      'a client of createTestLeasehold',
      'holder',
      (_client, wrong) => createTestLeasehold().client(wrong),
    ],
  ];

  const nextOf = <T>(items: AsyncIterable<T>): Promise<unknown> =>
    items[Symbol.asyncIterator]().next();

  test.each(CALLS)(
    'is refused by %s, which names it and what is allowed',
    async (_what, allowed, call) => {
      const client = createLeasehold({ url: 'http://127.0.0.1:1', token: '', transport: 'http' });
      onTestFinished(() => client.close());

      const failure = await failureOf(Promise.resolve().then(() => call(client, { ttl: 30_000 })));

      expect(failure).toMatchObject({
        code: 'request.invalid',
        message: expect.stringMatching(
          new RegExp(`^ttl is not known: allowed (?:is|are) .*\\b${allowed}\\b`, 'u'),
        ) as string,
        details: { field: 'ttl' },
      });
    },
  );

  test('may be there without a value', async () => {
    const { define } = setUpLeases();

    const lease = await define().acquire('k', { ttl: undefined } as never);

    expect(lease.key).toBe('k');
  });

  test('is refused within others, too', async () => {
    const client = createTestLeasehold().client();
    const options = { action: 'a', override: { reason: 'r', by: 'me' } };

    const failure = await failureOf(client.environments.tryAcquire('e', options));

    expect(failure).toMatchObject({ message: 'override.by is not known: allowed is reason' });
  });

  test('a definition with a key is still the name of a lease', () => {
    const leasehold = createTestLeasehold();
    onTestFinished(() => leasehold.close());
    const client = leasehold.client();
    const scope = { ...client.defineLease(['n']), key: 'k' };

    expect(() => client.observe(scope, { signal })).not.toThrow();
  });
});

test.each([
  ['waitMs', 1_000],
  ['order', 'newest'],
  ['supersede', 'running'],
  ['onWaiting', () => undefined],
])('a try for an environment is refused with %s: it waits for nobody', async (field, value) => {
  const leasehold = createTestLeasehold();
  onTestFinished(() => leasehold.close());
  const options = { action: 'a', [field]: value };

  const failure = await failureOf(leasehold.client().environments.tryAcquire('e', options));

  expect(failure).toMatchObject({ code: 'request.invalid', details: { field } });
  expect(failure).toHaveProperty('message', expect.stringContaining(`${field} is not known`));
  expect(leasehold.historyOf({ face: 'environment', namespace: [], key: 'e' })).toEqual([]);
});

test.each([500, 86_400_001])('a TTL of %d ms is refused with what is allowed', async (ttlMs) => {
  const { define } = setUpLeases();
  const client = createTestLeasehold().client();
  const calls = [
    define().acquire('k', { ttlMs }),
    client.environments.tryAcquire('e', { action: 'a', durationMs: ttlMs }),
  ];

  for (const failure of await Promise.all(calls.map(failureOf))) {
    expect(failure).toMatchObject({
      code: 'lease.ttl_out_of_range',
      message: `The TTL must be from 1000 to 86400000 ms, not ${String(ttlMs)}.`,
    });
  }
});

test.each<[string, (client: Leasehold) => unknown]>([
  ['request must be an object, such as { key:', (client) => client.keys.connect('k' as never)],
  ['request must be an object, such as { key:', (client) => client.gateway.sign('k' as never)],
  ['request must be an object, such as { user:', (client) => client.gateway.revoke('k' as never)],
  ['scope must be an object, such as { namespace:', (client) => client.observe('k' as never)],
])('a first argument that is no object: %s', async (told, call) => {
  const client = createLeasehold({ url: 'http://127.0.0.1:1', token: '', transport: 'http' });
  onTestFinished(() => client.close());

  const failure = await failureOf(Promise.resolve().then(() => call(client)));

  expect(failure).toMatchObject({
    code: 'request.invalid',
    message: expect.stringContaining(told) as string,
  });
});

describe('a veto that returns something else than reasons', () => {
  test.each([true, false, 0, {}, [5], new Error('no'), new Set(['no'])])(
    '%j records nothing, and the environment is free again',
    async (answer) => {
      const leasehold = createTestLeasehold();
      onTestFinished(() => leasehold.close());
      const recorded: string[] = [];

      const failure = await failureOf(
        leasehold.client().withEnvironmentLease('e', {
          action: 'deploy',
          veto: () => answer as never,
          record: () => recorded.push('recorded'),
        }),
      );

      expect(failure).toMatchObject({ code: 'request.invalid', details: { field: 'veto' } });
      expect(recorded).toEqual([]);
      expect(leasehold.holdingOf({ face: 'environment', namespace: [], key: 'e' })).toBeUndefined();
    },
  );

  test('or is no function: nothing is acquired', async () => {
    const leasehold = createTestLeasehold();
    onTestFinished(() => leasehold.close());
    const use = { action: 'deploy', veto: 'no', record: () => 'done' } as never;

    const failure = await failureOf(leasehold.client().withEnvironmentLease('e', use));

    expect(failure).toMatchObject({ code: 'request.invalid', details: { field: 'veto' } });
    expect(leasehold.historyOf({ face: 'environment', namespace: [], key: 'e' })).toEqual([]);
  });
});
