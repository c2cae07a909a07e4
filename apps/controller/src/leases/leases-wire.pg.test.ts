import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { shareTestController, type TestController } from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { mutate, query } from '../testing/wire.ts';
import { acquireLease, refOf, wanted } from '../testing/wire-leases.ts';

describe('leases on the wire', () => {
  let on: TestController;
  let secret: string;
  let operator: string;
  shareTestController(async (shared) => {
    on = shared;
    ({ secret } = await on.token('client'));
    operator = (await on.token('operator')).secret;
  });

  const acquire = (change: object): Promise<unknown> =>
    mutate(on, 'leases.acquire', { secret, input: wanted(change) });
  const release = (input: object, as = secret): Promise<unknown> =>
    mutate(on, 'leases.release', { secret: as, input });
  const heartbeat = (renewals: unknown[], as = secret): Promise<unknown> =>
    mutate(on, 'leases.heartbeat', { secret: as, input: { localTimeMs: 2_000_000, renewals } });

  test('C1 a free lease is granted, with deadlines in the clock of its holder', async () => {
    const key = randomUUID();

    const answer = await acquire({ key });

    expect(answer).toEqual({
      outcome: 'granted',
      lease: {
        leaseId: expect.stringMatching(/^[0-9a-f-]{36}$/u) as string,
        fencingToken: expect.stringMatching(/^\d+$/u) as string,
        namespace: ['test'],
        key,
        deadlines: {
          renewAtMs: expect.closeTo(1_010_000, -3) as number,
          loseAtMs: expect.closeTo(1_025_000, -3) as number,
        },
      },
      waitedMs: expect.any(Number) as number,
      witness: expect.any(String) as string,
    });
  });

  test('C2 C30 a held lease is refused with its holder, since when, and its comment', async () => {
    const key = randomUUID();
    await acquireLease(on, secret, { key, comment: 'nightly' });

    const answer = await acquire({ key, holder: 'bob' });

    expect(answer).toEqual({
      outcome: 'held',
      by: 'alice',
      since: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/u) as string,
      remainingMs: expect.closeTo(30_000, -4) as number,
      waitedMs: expect.any(Number) as number,
      comment: 'nightly',
      action: null,
      waiters: 0,
      witness: expect.any(String) as string,
    });
  });

  test.each([
    ['a segment with a separator', { namespace: ['a.b'] }, 'request.invalid'],
    ['a joined namespace', { namespace: 'a.b' }, 'request.invalid'],
    ['an empty key', { key: '' }, 'request.invalid'],
    ['a control character', { key: 'a\nb' }, 'request.invalid'],
    ['a lone surrogate', { key: 'a\uD800' }, 'request.invalid'],
    ['poisoned metadata', { metadata: { a: '\0' } }, 'request.invalid'],
    ['a TTL below a second', { ttlMs: 999 }, 'lease.ttl_out_of_range'],
    ['a TTL above a day', { ttlMs: 86_400_001 }, 'lease.ttl_out_of_range'],
    ['a wait above two minutes', { waitMs: 120_001 }, 'request.invalid'],
    ['an unknown field', { tag: 'x' }, 'request.invalid'],
    ['another datacenter', { datacenter: 'mars' }, 'reservation.unknown_datacenter'],
    ['the reserved namespace', { namespace: ['leasehold', 'jobs'] }, 'auth.forbidden'],
  ])('C10 %s is a clear error', async (_what, change, code) => {
    expect(await acquire(change)).toBe(code);
  });

  test('C57 ids are no secrets: a key, an environment, and a lease of another token are not found', async () => {
    await startTestDrone(on);
    const { leaseId, fencingToken } = (await mutate(on, 'keys.connect', {
      secret,
      input: { key: { name: randomUUID() }, spawn: { program: 'room' } },
    })) as { leaseId: string; fencingToken: string };
    const key = { leaseId, fencingToken };
    const { lease: environment } = (await mutate(on, 'environments.tryAcquire', {
      secret,
      input: { environment: randomUUID(), action: 'a', holder: 'h', localTimeMs: 1 },
    })) as { lease: typeof key };
    const own = await acquireLease(on, secret);
    const stranger = (await on.token('client')).secret;

    for (const ref of [key, refOf(environment as never)]) {
      expect(await release(ref)).toEqual({ outcome: 'not_found' });
      expect(await heartbeat([ref])).toMatchObject({ results: [{ reason: 'not_found' }] });
    }
    expect(await release(refOf(own), stranger)).toEqual({ outcome: 'not_found' });
    expect(await heartbeat([refOf(own)], stranger)).toMatchObject({
      results: [{ reason: 'not_found' }],
    });
    const asEnvironment = { secret, input: refOf(own) };
    expect(await mutate(on, 'environments.release', asEnvironment)).toEqual({
      outcome: 'not_found',
    });
    expect(await release(refOf(own))).toEqual({ outcome: 'released' });
  });

  test('a request that was given up is undone, and is never granted later', async () => {
    const idempotencyKey = randomUUID();
    const key = randomUUID();
    const lease = await acquireLease(on, secret, { key, idempotencyKey });
    const cancel = (input: object): Promise<unknown> =>
      mutate(on, 'leases.cancel', { secret, input });

    expect(await cancel({ idempotencyKey })).toEqual({ outcome: 'released' });
    expect(await release(refOf(lease))).toEqual({ outcome: 'already_released' });

    const early = randomUUID();
    expect(await cancel({ idempotencyKey: early })).toEqual({ outcome: 'not_found' });
    expect(await acquire({ key, idempotencyKey: early })).toBe('lease.wait_cancelled');
  });

  test('C54 one bad item of a batch fails alone, whatever is wrong with it', async () => {
    const { localTimeMs, ...good } = wanted();
    const key = randomUUID();
    const other = (await on.token('client', { namespaces: ['test'] })).secret;
    const bad = [
      { ...good, metadata: { a: '\0' } },
      { ...good, metadata: { '\uD800': 1 } },
      { ...good, namespace: ['a.b'] },
      { ...good, namespace: ['elsewhere'] },
      { ...good, ttlMs: 1 },
      { ...good, waitMs: 10 },
      'nonsense',
      null,
    ];
    const items = [
      ...Array.from({ length: 99 }, () => ({ ...good, key: randomUUID() })),
      ...bad,
      { ...good, key },
      { ...good, key },
    ];

    const { results } = (await mutate(on, 'leases.acquireMany', {
      secret: other,
      input: { localTimeMs, items },
    })) as { results: { outcome: string; error?: { code: string; message: string } }[] };

    expect(results.slice(0, 99).every(({ outcome }) => outcome === 'granted')).toBe(true);
    expect(results.slice(99, -2).map(({ outcome, error }) => [outcome, error?.code])).toEqual([
      ['failed', 'request.invalid'],
      ['failed', 'request.invalid'],
      ['failed', 'request.invalid'],
      ['failed', 'auth.forbidden'],
      ['failed', 'lease.ttl_out_of_range'],
      ['failed', 'request.invalid'],
      ['failed', 'request.invalid'],
      ['failed', 'request.invalid'],
    ]);
    expect(results[104]?.error?.message).toBe('waitMs: is not a known field');
    expect(results.slice(-2).map(({ outcome }) => outcome)).toEqual(['granted', 'held']);
  });

  test('C34 what an operator does is in the history of the lease and in the audit', async () => {
    const key = randomUUID();
    const { leaseId } = await acquireLease(on, secret, { key });
    const act = (path: string, input: object): Promise<unknown> =>
      mutate(on, path, { secret: operator, input: { leaseId, ...input } });

    expect(await act('leases.blockRenewal', { reason: 'freeze' })).toEqual({ changed: true });
    expect(await act('leases.blockRenewal', {})).toEqual({ changed: false });
    expect(await act('leases.revoke', { mode: 'force', reason: 'stuck' })).toMatchObject({
      outcome: 'revoked',
    });
    expect(await act('leases.revoke', { mode: 'force', reason: 'stuck' })).toEqual({
      outcome: 'gone',
      stopsBy: null,
    });
    expect(await acquire({ key, holder: 'bob' })).toMatchObject({ outcome: 'granted' });

    const resource = `lease:${leaseId}`;
    const audit = await query(on, 'audit.list', { secret: operator, input: { resource } });
    expect(audit).toMatchObject({
      items: [
        {
          action: 'leases.revoke',
          reason: 'stuck',
          detail: { mode: 'force', face: 'lease', namespace: 'test', name: key },
        },
        { action: 'leases.blockRenewal', reason: 'freeze' },
      ],
    });
  });
});
