/** One idempotency key stands for one request, on every face and for every procedure that takes one. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { shareTestController, type TestController } from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { mutate } from '../testing/wire.ts';

const REUSED = 'request.idempotency_reused';
const GIVEN_UP = 'lease.wait_cancelled';

/** Requests that are retries of one another: they ask for the same thing. */
type Family = 'connect' | 'acquire' | 'environment';

/** A procedure that takes an idempotency key. */
interface Procedure {
  readonly path: string;
  readonly family: Family;
  readonly isCancel?: boolean;
  /** The input that asks for the thing of this name. */
  readonly input: (name: string, change?: object) => Record<string, unknown>;
  /** Fields that make it another request, each with a value. */
  readonly asked: object;
  /** Fields that a retry may change. */
  readonly retried: object;
}

const acquireInput = (name: string, change: object = {}): Record<string, unknown> => ({
  namespace: ['idem'],
  key: name,
  ttlMs: 30_000,
  holder: 'alice',
  comment: 'why',
  metadata: { a: 1, b: [2] },
  ...change,
});
const acquireAsked = {
  key: 'another',
  namespace: ['idem', 'a'],
  ttlMs: 30_001,
  holder: 'bob',
  comment: 'why not',
  metadata: { a: 1, b: [3] },
};

const PROCEDURES: readonly Procedure[] = [
  {
    path: 'keys.connect',
    family: 'connect',
    input: (name, { key, spawn, ...change }: { key?: object; spawn?: object } = {}) => ({
      key: { name, namespace: 'idem', tag: '', ...key },
      spawn: { program: 'room', ...spawn },
      ...change,
    }),
    asked: {
      key: [{ name: 'another' }, { namespace: '' }, { tag: 'red' }],
      spawn: [
        { program: 'other' },
        { args: ['a'] },
        { env: { A: 'a' } },
        { lifetimeLimitSeconds: 60 },
        { idleStopSeconds: 60 },
        { datacenter: 'local' },
      ],
    },
    retried: { waitMs: 1, waitFor: 'granted' },
  },
  {
    path: 'leases.acquire',
    family: 'acquire',
    input: (name, change) => ({ ...acquireInput(name, change), localTimeMs: 1 }),
    asked: acquireAsked,
    retried: { waitMs: 20, localTimeMs: 2, metadata: { b: [2], a: 1 } },
  },
  {
    path: 'leases.acquireMany',
    family: 'acquire',
    input: (name, change) => ({ localTimeMs: 1, items: [acquireInput(name, change)] }),
    asked: acquireAsked,
    retried: {},
  },
  {
    path: 'environments.tryAcquire',
    family: 'environment',
    input: (name, change) => ({
      environment: ['idem', name],
      action: 'deploy',
      holder: 'alice',
      localTimeMs: 1,
      comment: 'why',
      metadata: { a: 1 },
      ...change,
    }),
    asked: {
      environment: ['idem', 'another'],
      action: 'reindex',
      holder: 'bob',
      comment: 'why not',
      metadata: { a: 2 },
      durationMs: 60_000,
    },
    retried: { localTimeMs: 2 },
  },
  ...(['leases.cancel', 'environments.cancel'] as const).map((path): Procedure => ({
    path,
    family: path === 'leases.cancel' ? 'acquire' : 'environment',
    isCancel: true,
    input: () => ({}),
    asked: {},
    retried: {},
  })),
];

/** Every change of a single field. */
function changesOf(fields: object): [string, object][] {
  return Object.entries(fields).flatMap(([field, value]: [string, unknown]) => {
    const isList = Array.isArray(value) && value.every((one) => typeof one === 'object');
    const values: unknown[] = isList ? value : [value];
    return values.map((one): [string, object] => [
      `${field} ${JSON.stringify(one)}`,
      { [field]: one },
    ]);
  });
}

describe('an idempotency key on the wire', () => {
  let on: TestController;
  let secret: string;
  shareTestController(async (shared) => {
    on = shared;
    ({ secret } = await on.token('client'));
  });

  /** Sends a request with a key. @returns what identifies its grant, or the code, or the outcome. */
  async function send(
    { path, input }: Procedure,
    idempotencyKey: string,
    { name = '', change = {} }: { name?: string; change?: object } = {},
  ): Promise<string> {
    const given = input(name, change);
    const { items } = given as { items?: object[] };
    const sent =
      items === undefined
        ? { ...given, idempotencyKey }
        : { ...given, items: items.map((item) => ({ ...item, idempotencyKey })) };
    return shortOf(await mutate(on, path, { secret, input: sent }));
  }

  /** The faces on which this name is held. */
  async function holdersOf(name: string): Promise<string[]> {
    const rows = await on.controller.store.general.$queryRaw<{ face: string }[]>`
      select face from lease where name = ${name} and end_reason is null`;
    return rows.map(({ face }) => face);
  }

  const pairs = PROCEDURES.flatMap((first) => PROCEDURES.map((second) => [first, second] as const));

  test.each(pairs.map(([first, second]) => [first.path, second.path, first, second] as const))(
    'H-key-across-faces used for %s, then sent with %s, gets the same answer, or is refused as reused',
    async (_first, _second, first, second) => {
      await startTestDrone(on, { droneId: `d-${randomUUID()}` });
      const [name, idempotencyKey] = [randomUUID(), randomUUID()];
      const isOneRequest = first.family === second.family;

      const answer = await send(first, idempotencyKey, { name });
      const again = await send(second, idempotencyKey, { name });

      expect(answer).toMatch(first.isCancel === true ? /^not_found$/u : /^granted /u);
      expect(again).toBe(expectedOf(first, second, { isOneRequest, answer }));
      const isHeld = first.isCancel !== true && !(isOneRequest && second.isCancel === true);
      expect(await holdersOf(name)).toHaveLength(isHeld ? 1 : 0);
    },
  );

  const changes = PROCEDURES.flatMap((procedure) =>
    changesOf(procedure.asked).map(
      ([field, change]) => [procedure.path, field, procedure, change] as const,
    ),
  );

  test.each(changes)('%s with another %s is another request', async (_path, _field, of, change) => {
    await startTestDrone(on, { droneId: `d-${randomUUID()}` });
    const [name, idempotencyKey] = [randomUUID(), randomUUID()];
    const first = await send(of, idempotencyKey, { name });

    expect(await send(of, idempotencyKey, { name, change })).toBe(REUSED);

    expect(await send(of, idempotencyKey, { name })).toBe(first);
    expect(await holdersOf(name)).toHaveLength(1);
  });

  const retries = PROCEDURES.flatMap((procedure) =>
    changesOf(procedure.retried).map(
      ([field, change]) => [procedure.path, field, procedure, change] as const,
    ),
  );

  test.each(retries)('%s with %s is the same request', async (_path, _field, of, change) => {
    await startTestDrone(on, { droneId: `d-${randomUUID()}` });
    const [name, idempotencyKey] = [randomUUID(), randomUUID()];
    const first = await send(of, idempotencyKey, { name });

    expect(await send(of, idempotencyKey, { name, change })).toBe(first);
  });

  test('a refusal is repeated only to its own request: another request with its key is refused as reused', async () => {
    const [name, idempotencyKey] = [randomUUID(), randomUUID()];
    const [, acquire, , tryAcquire] = PROCEDURES as [Procedure, Procedure, Procedure, Procedure];
    await send(acquire, randomUUID(), { name, change: { holder: 'other' } });

    expect(await send(acquire, idempotencyKey, { name })).toBe('held');
    expect(await send(acquire, idempotencyKey, { name: randomUUID() })).toBe(REUSED);
    expect(await send(tryAcquire, idempotencyKey, { name })).toBe(REUSED);
    expect(await send(acquire, idempotencyKey, { name })).toBe('held');
  });

  test('only one of several requests with one key at once is carried out, and the others are refused', async () => {
    const drone = await startTestDrone(on, { droneId: `d-${randomUUID()}` });
    const makers = PROCEDURES.filter(({ isCancel }) => isCancel !== true);

    for (let round = 0; round < 10; round += 1) {
      await drone.heartbeat();
      const idempotencyKey = randomUUID();
      const names = Array.from({ length: 2 * makers.length }, () => randomUUID());
      const answers = await Promise.all(
        names.map((name, place) => {
          const of = makers[place % makers.length];
          return of === undefined ? Promise.resolve('none') : send(of, idempotencyKey, { name });
        }),
      );

      expect(answers.filter((answer) => answer !== REUSED)).toEqual([
        expect.stringMatching(/^granted /u),
      ]);
      expect((await Promise.all(names.map(holdersOf))).flat()).toHaveLength(1);
    }
  });
});

/** The expected answer to the second request with a key. */
function expectedOf(
  first: Procedure,
  second: Procedure,
  { isOneRequest, answer }: { isOneRequest: boolean; answer: string },
): string {
  if (!isOneRequest) return REUSED;
  if (second.isCancel === true) return first.isCancel === true ? 'not_found' : 'released';
  return first.isCancel === true ? GIVEN_UP : answer;
}

/** An answer as one text. */
function shortOf(answer: unknown): string {
  if (typeof answer === 'string') return answer;
  const given = answer as Record<string, unknown>;
  const { results } = given as { results?: [Record<string, unknown>] };
  const { outcome, lease, backendId, error } = (results === undefined ? given : results[0]) as {
    outcome?: string;
    lease?: { leaseId: string };
    backendId?: string;
    error?: { code: string };
  };
  if (error !== undefined) return error.code;
  const made = lease?.leaseId ?? backendId;
  return made === undefined ? (outcome ?? 'nothing') : `granted ${made}`;
}
