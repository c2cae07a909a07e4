import { LIMITS } from '@leasehold/keys-core';
import { describe, expect, test } from 'vitest';
import {
  acquireAllInputSchema,
  acquireInputSchema,
  acquireItemSchema,
  acquireManyInputSchema,
  declareInputSchema,
  environmentNameSchema,
  environmentSchema,
  leaseHeartbeatInputSchema,
  leaseListInputSchema,
  leaseNameSchema,
  leaseRevokeInputSchema,
  releaseInputSchema,
  releaseManyInputSchema,
  tryAcquireInputSchema,
} from './leases.ts';

const LEASE_ID = 'b39f7a4a-0d2c-4a55-9f6a-6b8d7c1a2f30';

const WANTED = {
  namespace: ['user', 'update'],
  key: '42',
  ttlMs: 30_000,
  holder: 'h',
  localTimeMs: 1,
};
const acquiring = (change: object): boolean =>
  acquireInputSchema.safeParse({ ...WANTED, ...change }).success;

describe('the contract of leases', () => {
  test('a namespace is a list of segments, and is stored as one joined string', () => {
    expect(acquireInputSchema.parse(WANTED).namespace).toBe('user.update');
    expect(acquireInputSchema.parse({ ...WANTED, namespace: [] }).namespace).toBe('');
  });

  test('C10 ["a.b"] is refused rather than confused with ["a","b"]', () => {
    const parsed = acquireInputSchema.safeParse({ ...WANTED, namespace: ['a.b'] });

    expect(parsed.error?.issues).toMatchObject([
      { path: ['namespace'], message: 'namespace segments must not be empty or contain "."' },
    ]);
    expect(acquiring({ namespace: ['a', 'b'] })).toBe(true);
  });

  test('each of several leases has a mode of its own: one for all is refused, and named', () => {
    const { namespace, key, ...rest } = WANTED;
    const wanted = { ...rest, scopes: [{ namespace, key, mode: 'shared' }] };

    const parsed = acquireAllInputSchema.safeParse({ ...wanted, mode: 'shared' });

    expect(parsed.error?.issues).toMatchObject([{ code: 'unrecognized_keys', keys: ['mode'] }]);
    expect(acquireAllInputSchema.safeParse(wanted).success).toBe(true);
  });

  test.each([
    ['a string', 'user.update'],
    ['an empty segment', ['a', '']],
    ['a segment that is only a separator', ['.']],
    ['seventeen segments', Array.from({ length: 17 }, () => 'a')],
    ['a line break', ['a\nb']],
    ['a lone surrogate', ['a\uD800']],
    ['a NUL', ['a\0']],
    ['513 bytes', ['a'.repeat(513)]],
    ['no list', null],
    ['a list of numbers', [1]],
  ])('C10 refuses a namespace with %s', (_what, namespace) => {
    expect(acquiring({ namespace })).toBe(false);
  });

  test.each(['', 'x'.repeat(256), 'a\nb', 'a\0', 'a\uD800', 7, null])(
    'C10 refuses the key %j',
    (key) => {
      expect(acquiring({ key })).toBe(false);
    },
  );

  test.each(['k', 'x'.repeat(255), '../../etc/passwd', 'a.b/c', 'schlüssel 鍵 \u{10FFFD}'])(
    'C10 accepts the key %j and keeps it unchanged',
    (key) => {
      expect(acquireInputSchema.parse({ ...WANTED, key }).key).toBe(key);
    },
  );

  test('waits are bounded, and 0 by default; one that is longer than a call needs a key', () => {
    const keyed = { idempotencyKey: 'k' };
    expect(acquireInputSchema.parse(WANTED).waitMs).toBe(0);
    expect([0, 120_000].map((waitMs) => acquiring({ waitMs }))).toEqual([true, true]);
    expect(acquiring({ waitMs: 604_800_000, ...keyed })).toBe(true);
    expect(acquiring({ waitMs: 120_001 })).toBe(false);
    expect(acquiring({ waitMs: 200, callMs: 100 })).toBe(false);
    expect([99, 100].map((callMs) => acquiring({ waitMs: 200, callMs, ...keyed }))).toEqual([
      false,
      true,
    ]);
    expect([-1, 604_800_001, 0.5].map((waitMs) => acquiring({ waitMs, ...keyed }))).toEqual([
      false,
      false,
      false,
    ]);
  });

  test('an item of a batch cannot wait, and an unknown field is an error', () => {
    const item = { namespace: ['user'], key: '42', ttlMs: 30_000, holder: 'h' };

    expect(acquireItemSchema.safeParse(item).success).toBe(true);
    expect(acquireItemSchema.safeParse({ ...item, waitMs: 0 }).success).toBe(false);
    expect(acquiring({ wait: 1 })).toBe(false);
  });

  test('C54 metadata is any JSON up to 16 KiB and 16 levels, without text that poisons a batch', () => {
    const nested = (depth: number): unknown => (depth === 0 ? 1 : { a: nested(depth - 1) });
    const deep: unknown = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000));

    for (const metadata of [1, null, 'x', [], { a: [1] }, nested(16), { a: 'x'.repeat(16_000) }]) {
      expect(acquiring({ metadata })).toBe(true);
    }
    for (const metadata of [
      '\0',
      { '\uD800': 1 },
      { a: ['\uDC00'] },
      nested(17),
      deep,
      { a: 'x'.repeat(16_384) },
    ]) {
      expect(acquiring({ metadata })).toBe(false);
    }
  });

  test('comments and details are bounded in bytes; a comment is one line, a detail may have more', () => {
    const ref = { leaseId: LEASE_ID, fencingToken: '1' };
    const releasing = (change: object): boolean =>
      releaseInputSchema.safeParse({ ...ref, ...change }).success;

    expect(acquiring({ comment: 'x'.repeat(LIMITS.commentBytesMax) })).toBe(true);
    expect(acquiring({ comment: 'x'.repeat(LIMITS.commentBytesMax + 1) })).toBe(false);
    expect(acquiring({ comment: 'Build\n42' })).toBe(false);
    expect(releaseInputSchema.parse(ref).result).toBe('ok');
    expect(releasing({ result: 'failed', detail: 'Error\n  at x' })).toBe(true);
    expect(releasing({ detail: 'a\0' })).toBe(false);
    expect(releasing({ detail: 'x'.repeat(1_025) })).toBe(false);
    expect(releasing({ result: 'maybe' })).toBe(false);
  });

  test('batches are bounded; their items are checked only when they are carried out', () => {
    const many = (count: number): unknown[] => Array.from({ length: count }, () => 'nonsense');

    for (const [schema, field, max] of [
      [acquireManyInputSchema, 'items', 1_000],
      [releaseManyInputSchema, 'items', 10_000],
      [leaseHeartbeatInputSchema, 'renewals', 10_000],
    ] as const) {
      const taking = (count: number): boolean =>
        schema.safeParse({
          ...(schema === releaseManyInputSchema ? {} : { localTimeMs: 1 }),
          [field]: many(count),
        }).success;
      expect([taking(0), taking(max), taking(max + 1)]).toEqual([true, true, false]);
    }
  });

  test('a lease is named by its key or by its name, as in its view, but not by both', () => {
    const parsed = { namespace: 'a.b', name: 'k' };

    expect(leaseNameSchema.parse({ namespace: ['a', 'b'], key: 'k' })).toEqual(parsed);
    expect(leaseNameSchema.parse({ namespace: 'a.b', name: 'k' })).toEqual(parsed);
    expect(leaseNameSchema.parse({ name: 'k' })).toEqual({ namespace: '', name: 'k' });
    expect(leaseNameSchema.safeParse({ namespace: ['a'] }).success).toBe(false);
    expect(leaseNameSchema.safeParse({ name: 'k', key: 'k' }).success).toBe(false);
    expect(leaseNameSchema.safeParse({ namespace: ['a.b'], key: 'k' }).success).toBe(false);
  });

  test('a list may be requested without any input; it includes children and at most 500 leases', () => {
    expect(leaseListInputSchema.parse(undefined)).toMatchObject({ includeChildren: true });
    expect(leaseListInputSchema.safeParse({ limit: 501 }).success).toBe(false);
  });

  test('a revoke has a reason, and leases cannot be abandoned: they are free at once', () => {
    const revoking = (input: object): boolean =>
      leaseRevokeInputSchema.safeParse({ leaseId: LEASE_ID, mode: 'force', ...input }).success;

    expect(revoking({ reason: 'x' })).toBe(true);
    expect(revoking({})).toBe(false);
    expect(revoking({ reason: 'x', abandon: true })).toBe(false);
  });

  test('each declaration has a namespace in segments', () => {
    const declaring = (...declarations: unknown[]): boolean =>
      declareInputSchema.safeParse({ declarations }).success;

    expect(declaring({ namespace: ['a', 'b'], ttlMs: 1_000, description: 'd' })).toBe(true);
    expect(declaring({ namespace: ['a.b'], ttlMs: 1_000 })).toBe(false);
  });
});

describe('the contract of environments', () => {
  const WANTED_ENVIRONMENT = { environment: 'prod', action: 'verify', holder: 'h', localTimeMs: 1 };

  test('an environment is a name, or segments of which the last is the name; a name may have dots', () => {
    expect(environmentSchema.parse('prod')).toEqual({ namespace: '', name: 'prod' });
    expect(environmentSchema.parse('eu.prod')).toEqual({ namespace: '', name: 'eu.prod' });
    expect(environmentSchema.parse(['team', 'app', 'prod'])).toEqual({
      namespace: 'team.app',
      name: 'prod',
    });
    expect(environmentSchema.parse(['eu.prod'])).toEqual({ namespace: '', name: 'eu.prod' });
  });

  test.each([[[]], [''], [['a', '']], [['', 'a']], [['a.b', 'c']], ['a\n'], [7]])(
    'C10 refuses the environment %j',
    (environment) => {
      expect(environmentSchema.safeParse(environment).success).toBe(false);
    },
  );

  test('a request has an action and a holder, and never waits', () => {
    const asking = (change: object): boolean =>
      tryAcquireInputSchema.safeParse({ ...WANTED_ENVIRONMENT, ...change }).success;

    expect(asking({})).toBe(true);
    expect(asking({ durationMs: 5_000, comment: 'c', metadata: { a: 1 } })).toBe(true);
    expect(asking({ action: undefined })).toBe(false);
    expect(asking({ action: '' })).toBe(false);
    expect(asking({ holder: '' })).toBe(false);
    expect(asking({ waitMs: 0 })).toBe(false);
  });

  test('an environment is named as in a request or as in its view, but not both', () => {
    const parsed = { namespace: 'team', name: 'prod' };

    expect(environmentNameSchema.parse({ environment: ['team', 'prod'] })).toEqual(parsed);
    expect(environmentNameSchema.parse({ namespace: 'team', name: 'prod' })).toEqual(parsed);
    expect(environmentNameSchema.parse({ name: 'prod' })).toEqual({ ...parsed, namespace: '' });
    expect(environmentNameSchema.safeParse({}).success).toBe(false);
    expect(environmentNameSchema.safeParse({ environment: 'p', name: 'p' }).success).toBe(false);
  });
});
