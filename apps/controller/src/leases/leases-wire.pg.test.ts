import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { openTestController, type TestController } from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { mutate, query } from '../testing/wire.ts';
import { acquireLease, ageLease, refOf, wanted } from '../testing/wire-leases.ts';

describe('leases on the wire', () => {
  let on: TestController;
  let secret: string;
  let operator: string;
  beforeAll(async () => {
    const { close, ...started } = await openTestController();
    on = started;
    ({ secret } = await on.token('client'));
    operator = (await on.token('operator')).secret;
    return close;
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

  test('C9 only one of a hundred callers at once gets the lease, and the others are told which one', async () => {
    const key = randomUUID();

    const answers = (await Promise.all(
      Array.from({ length: 100 }, (_, index) => acquire({ key, holder: `h${String(index)}` })),
    )) as { outcome: string; by?: string }[];

    const winner = answers.findIndex(({ outcome }) => outcome === 'granted');
    const others = answers.filter((_, index) => index !== winner);
    expect(others).toHaveLength(99);
    expect(new Set(others.map(({ outcome, by }) => `${outcome} ${String(by)}`))).toEqual(
      new Set([`held h${String(winner)}`]),
    );
  });

  test('C3 C4 another key, and the same key in another namespace, are independent', async () => {
    const key = randomUUID();
    await acquireLease(on, secret, { key });

    expect(await acquire({ key: `${key}x` })).toMatchObject({ outcome: 'granted' });
    expect(await acquire({ key, namespace: ['test', 'a'] })).toMatchObject({ outcome: 'granted' });
    expect(await acquire({ key, namespace: [] })).toMatchObject({ outcome: 'granted' });
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

  test('C12 C17 a renewal extends the lease, keeps its token, and others stay refused', async () => {
    const key = randomUUID();
    const lease = await acquireLease(on, secret, { key });
    await ageLease(on, lease.leaseId, 20_000);

    const renewed = await heartbeat([refOf(lease)]);

    expect(renewed).toEqual({
      results: [
        {
          leaseId: lease.leaseId,
          outcome: 'renewed',
          deadlines: {
            renewAtMs: expect.closeTo(2_010_000, -3) as number,
            loseAtMs: expect.closeTo(2_025_000, -3) as number,
          },
        },
      ],
      witness: expect.any(String) as string,
    });
    expect(await acquire({ key })).toMatchObject({ outcome: 'held' });
    expect(
      await query(on, 'leases.get', { secret, input: { namespace: ['test'], key } }),
    ).toMatchObject({ fencingToken: lease.fencingToken });
  });

  test('C13 C14 C15 a renewal after takeover or expiry is refused as expired, and a blocked one as blocked', async () => {
    const keys = [randomUUID(), randomUUID(), randomUUID()];
    const [taken, expired, blocked] = await Promise.all(
      keys.map((key) => acquireLease(on, secret, { key })),
    );
    if (taken === undefined || expired === undefined || blocked === undefined) return;
    await ageLease(on, taken.leaseId, 30_000);
    await acquireLease(on, secret, { key: keys[0], holder: 'bob' });
    await ageLease(on, expired.leaseId, 30_000);
    const { leaseId } = blocked;
    await mutate(on, 'leases.blockRenewal', { secret: operator, input: { leaseId } });

    const { results } = (await heartbeat([taken, expired, blocked].map(refOf))) as {
      results: object[];
    };

    expect(results).toEqual([
      { leaseId: taken.leaseId, outcome: 'refused', reason: 'expired' },
      { leaseId: expired.leaseId, outcome: 'refused', reason: 'expired' },
      { leaseId, outcome: 'refused', reason: 'renewal_blocked' },
    ]);
  });

  test('C26 C27 a release frees the lease at once, and a second one changes nothing', async () => {
    const key = randomUUID();
    const lease = await acquireLease(on, secret, { key });

    expect(await release(refOf(lease))).toEqual({ outcome: 'released' });
    const next = await acquireLease(on, secret, { key, holder: 'bob' });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(lease.fencingToken));
    expect(await release(refOf(lease))).toEqual({ outcome: 'already_released' });
    expect(await acquire({ key })).toMatchObject({ outcome: 'held', by: 'bob' });
  });

  test('C20 C28 a stale holder is told that its release came too late, and the new one keeps the lease', async () => {
    const key = randomUUID();
    const lease = await acquireLease(on, secret, { key });
    await ageLease(on, lease.leaseId, 30_000);
    const next = await acquireLease(on, secret, { key, holder: 'bob' });

    expect(await release(refOf(lease))).toEqual({ outcome: 'expired' });

    expect(await heartbeat([refOf(next)])).toMatchObject({ results: [{ outcome: 'renewed' }] });
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

  test('I7 a repeated request gets the same answer, and grants nothing a second time', async () => {
    const again = { key: randomUUID(), idempotencyKey: randomUUID() };
    const refused = { key: again.key, idempotencyKey: randomUUID(), holder: 'bob' };
    const lease = await acquireLease(on, secret, again);

    expect(await acquireLease(on, secret, again)).toMatchObject(refOf(lease));
    const first = await acquire(refused);
    await release(refOf(lease));

    expect(first).toMatchObject({ outcome: 'held', by: 'alice' });
    expect(await acquire(refused)).toMatchObject({ outcome: 'held', by: 'alice' });
    expect(await acquireLease(on, secret, again)).toMatchObject(refOf(lease));
    expect(await query(on, 'leases.list', { secret, input: { name: again.key } })).toMatchObject({
      items: [{ phase: 'free', leaseId: lease.leaseId }],
    });
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

  test('a bad item of a batch of releases or renewals fails alone, too', async () => {
    const lease = await acquireLease(on, secret);
    const bad = { leaseId: lease.leaseId, fencingToken: 7 };

    const failed = {
      outcome: 'failed',
      error: {
        code: 'request.invalid',
        message: 'fencingToken: Invalid input: expected string, received number',
        retryable: false,
      },
    };
    expect(await heartbeat([bad, refOf(lease), {}])).toMatchObject({
      results: [
        { leaseId: lease.leaseId, outcome: 'renewed' },
        { leaseId: lease.leaseId, ...failed },
        { leaseId: '', outcome: 'failed' },
      ],
    });
    const items = [bad, refOf(lease), refOf(lease), { ...refOf(lease), result: 'x' }];
    expect(await mutate(on, 'leases.releaseMany', { secret, input: { items } })).toMatchObject({
      results: [
        failed,
        { outcome: 'released' },
        { outcome: 'already_released' },
        { outcome: 'failed' },
      ],
    });
  });

  test('viewers can read declarations, lists, the tree and contention', async () => {
    const viewer = (await on.token('viewer', { namespaces: ['looks'] })).secret;
    await acquireLease(on, secret, { namespace: ['looks', 'a'], key: 'k' });
    const declarations = [{ namespace: ['looks', 'a'], ttlMs: 30_000, description: 'd' }];
    await mutate(on, 'leases.declare', { secret, input: { declarations } });
    const ask = (path: string, input?: unknown): Promise<unknown> =>
      query(on, path, { secret: viewer, input });

    expect(await ask('leases.declared')).toMatchObject({
      items: [{ namespace: 'looks.a' }],
      asOf: expect.any(String) as string,
    });
    expect(await ask('leases.list')).toMatchObject({
      items: [{ namespace: 'looks.a', name: 'k', phase: 'held', datacenter: 'local' }],
      nextCursor: null,
      unreachable: [],
    });
    expect(await ask('leases.list', { datacenter: 'mars' })).toBe('reservation.unknown_datacenter');
    expect(await ask('leases.tree')).toMatchObject({
      items: [
        { namespace: 'looks', held: 1 },
        { namespace: 'looks.a', held: 1 },
      ],
    });
    expect(await ask('leases.contention')).toMatchObject({
      items: [],
      asOf: expect.any(String) as string,
    });
    const one = { namespace: ['looks', 'a'], key: 'k' };
    expect(await ask('leases.waiters', one)).toEqual({ items: [], nextCursor: null });
    expect(await ask('leases.history', one)).toMatchObject({ items: [{ kind: 'granted' }] });
    expect(await ask('leases.get', { namespace: ['other'], key: 'k' })).toBeNull();
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
