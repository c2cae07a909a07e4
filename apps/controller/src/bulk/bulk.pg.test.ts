import { randomUUID } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { BulkProgress } from '@leasehold/keys-core/bulk';
import { removeOldBulks } from '@leasehold/keys-core/bulk';
import { waitUntil } from '@leasehold/testing';
import {
  acquireLeases,
  bulkProgress,
  bulkProgressWhen,
  connectStarted,
  countAudit,
  countEvents,
  startBulkAction,
} from '../testing/bulk.ts';
import { anEmail, signedInAdmin, signedInPerson } from '../testing/test-browser.ts';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { input, mutate, query } from '../testing/wire.ts';
import { acquireLease, refOf, type WireLease } from '../testing/wire-leases.ts';

describe('a bulk action', () => {
  test('revokes a thousand grants, and none of those that ended or were granted again', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const operator = await on.token('operator');
    const refs = await acquireLeases(on, secret, 1_000);
    const [ended, regranted, ...rest] = refs;
    for (const ref of [ended, regranted]) {
      await mutate(on, 'leases.release', { secret, input: ref });
    }
    const next = await acquireLease(on, secret, { key: 'k1' });
    const otherToken = { leaseId: rest[0]?.leaseId, fencingToken: '1' };
    const neverThere = { leaseId: randomUUID(), fencingToken: '1' };
    const items = [ended, regranted, otherToken, neverThere, ...rest.slice(1)];

    const bulkId = await startBulkAction(on, operator.secret, {
      action: 'revoke',
      mode: 'force',
      reason: 'the region is on fire',
      items,
    });
    const seen = await bulkProgressWhen(on, bulkId);

    expect(seen).toMatchObject({
      bulkId,
      action: 'revoke',
      mode: 'force',
      reason: 'the region is on fire',
      actor: 'test operator',
      state: 'done',
      total: 1_001,
      done: 1_001,
      failedCount: 4,
    });
    expect(seen.failed).toEqual(
      items.slice(0, 4).map((item) => ({ leaseId: item?.leaseId, code: 'gone' })),
    );
    expect(await countEvents(on, 'revoked')).toEqual({ events: 997, grants: 997 });
    expect(await countAudit(on, 'leases.revoke')).toEqual({ entries: 0, resources: 0 });
    expect(await countAudit(on, 'bulk.start')).toEqual({ entries: 1, resources: 1 });
    const left = await on.controller.store.general.$queryRaw<{ id: string }[]>`
      select lease_id as id from lease where namespace = 'test' and end_reason is null`;
    expect(left.map(({ id }) => id).sort()).toEqual([next.leaseId, rest[0]?.leaseId].sort());
  });

  test('is one entry of the audit, whatever the number of its grants; what was done to each is in its items', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const operator = await on.token('operator');
    const [ended, held] = await acquireLeases(on, secret, 2);
    await mutate(on, 'leases.release', { secret, input: ended });
    const bulkId = await startBulkAction(on, operator.secret, {
      action: 'revoke',
      reason: 'why not',
      items: [ended, held],
    });
    await bulkProgressWhen(on, bulkId);
    const read = (procedure: string, given: object) =>
      query(on, procedure, { secret: operator.secret, input: given }) as Promise<{
        items: Record<string, unknown>[];
        nextCursor: string | null;
      }>;

    const audited = await read('audit.list', {});
    const first = await read('bulk.items', { bulkId, limit: 1 });
    const rest = await read('bulk.items', { bulkId, limit: 1, cursor: first.nextCursor });

    expect(audited.items).toMatchObject([
      {
        action: 'bulk.start',
        resource: `bulk:${bulkId}`,
        reason: 'why not',
        detail: { action: 'revoke', mode: 'graceful', total: 2 },
      },
    ]);
    expect(audited.items).toHaveLength(1);
    const lease = { face: 'lease', namespace: 'test', doneAt: expect.any(String) as string };
    expect([...first.items, ...rest.items]).toMatchObject([
      { ...lease, place: 1, name: 'k0', leaseId: ended?.leaseId, code: 'gone' },
      { ...lease, place: 2, name: 'k1', leaseId: held?.leaseId, code: null },
    ]);
    expect(rest.nextCursor).toBeNull();
    expect(await read('bulk.items', { bulkId: randomUUID() })).toBe('bulk.not_found');
  });

  test('blocks and allows renewal; for a grant that is so already it counts as done and changes nothing', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const operator = await on.token('operator');
    const items = await acquireLeases(on, secret, 3);
    await mutate(on, 'leases.blockRenewal', {
      secret: operator.secret,
      input: { leaseId: items[0]?.leaseId, reason: 'before' },
    });

    const blocking = await startBulkAction(on, operator.secret, { action: 'blockRenewal', items });
    const blocked = await bulkProgressWhen(on, blocking);
    const renewed = await mutate(on, 'leases.heartbeat', {
      secret,
      input: { localTimeMs: 1, renewals: items },
    });
    const allowing = await startBulkAction(on, operator.secret, { action: 'allowRenewal', items });
    const allowed = await bulkProgressWhen(on, allowing);

    expect(blocked).toMatchObject({ done: 3, failedCount: 0, mode: null });
    expect(allowed).toMatchObject({ done: 3, failedCount: 0 });
    expect((renewed as { results: unknown[] }).results).toMatchObject(
      items.map(() => ({ outcome: 'refused', reason: 'renewal_blocked' })),
    );
    expect(await countEvents(on, 'renewal_blocked')).toEqual({ events: 3, grants: 3 });
    expect(await countAudit(on, 'bulk.start')).toEqual({ entries: 2, resources: 2 });
  });

  test('acts on keys and environments by their own faces; an environment can only be revoked', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const operator = await on.token('operator');
    const drone = await startTestDrone(on);
    const key = await connectStarted(on, secret, drone);
    const { lease: environment } = (await mutate(on, 'environments.tryAcquire', {
      secret,
      input: { environment: 'prod', action: 'deploy', holder: 'h', localTimeMs: 1 },
    })) as { lease: WireLease };
    const items = [refOf(key), refOf(environment)];

    const blocking = await startBulkAction(on, operator.secret, { action: 'blockRenewal', items });
    const blocked = await bulkProgressWhen(on, blocking);
    const revoking = await startBulkAction(on, operator.secret, { action: 'revoke', items });
    const revoked = await bulkProgressWhen(on, revoking);

    expect(blocked.failed).toEqual([{ leaseId: environment.leaseId, code: 'bulk.unsupported' }]);
    expect(revoked).toMatchObject({ done: 2, failedCount: 0 });
    await waitUntil(() => drone.messages.some(({ kind }) => kind === 'terminate'));
    expect(await countEvents(on, 'revoked')).toEqual({ events: 2, grants: 2 });
  });

  test('is refused to a caller that may not act, for no items, and for items named twice', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const operator = await on.token('operator');
    const limited = await on.token('operator', { namespaces: ['test'] });
    const lease = await acquireLease(on, secret);
    const items = [refOf(lease)];
    const start = (by: string, input: object): Promise<string> => startBulkAction(on, by, input);

    expect(await start(secret, { action: 'revoke', items })).toBe('auth.forbidden');
    expect(await start(limited.secret, { action: 'revoke', items })).toBe('auth.forbidden');
    expect(await start(operator.secret, { action: 'revoke', items: [] })).toBe('request.invalid');
    expect(await start(operator.secret, { action: 'revoke', items: [...items, ...items] })).toBe(
      'request.invalid',
    );
    expect(await start(operator.secret, { action: 'revoke', items, reason: '' })).toBe(
      'request.invalid',
    );
    const unknown = { secret: operator.secret, input: { bulkId: randomUUID() } };
    expect(await mutate(on, 'bulk.abort', unknown)).toBe('bulk.not_found');
    expect(await query(on, 'bulk.get', unknown)).toBe('bulk.not_found');
    expect(await countEvents(on, 'revoked')).toEqual({ events: 0, grants: 0 });
  });

  test('is kept as long as events are, with its items, and then removed', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const operator = await on.token('operator');
    const items = await acquireLeases(on, secret, 2);
    const bulkId = await startBulkAction(on, operator.secret, { action: 'revoke', items });
    await bulkProgressWhen(on, bulkId);
    const { general, clock } = on.controller.store;
    const pass = {
      clock,
      onFailure: (_kind: string, error: unknown) => {
        throw error;
      },
    };

    await removeOldBulks(general, 30, pass);
    const before = await bulkProgress(on, bulkId);
    await general.$queryRaw`update bulk set ended_at = ended_at - interval '31 days' returning id`;
    await removeOldBulks(general, 30, pass);

    expect(before.state).toBe('done');
    expect(await bulkProgress(on, bulkId)).toBe('bulk.not_found');
    expect(await general.$queryRaw`select place from bulk_item`).toEqual([]);
  });
});

describe('a bulk action among others', () => {
  /** Each test has a namespace and people of its own. */
  let on: TestController;
  shareTestController((shared) => {
    on = shared;
  });

  test('of somebody who is disabled, or whose token is revoked, ends with the page under way', async () => {
    const admin = await signedInAdmin(on, anEmail());
    const eve = await signedInPerson(on, { email: anEmail(), role: 'operator' });
    const { secret } = await on.token('client');
    const program = await on.token('operator');
    const items = await acquireLeases(on, secret, 1_000, randomUUID());
    const order = { action: 'revoke', mode: 'force', reason: 'evil' };

    const { bulkId: first } = (await eve.mutate('bulk.start', {
      ...order,
      items: items.slice(0, 500),
    })) as { bulkId: string };
    const second = await startBulkAction(on, program.secret, {
      ...order,
      items: items.slice(500),
    });
    await admin.mutate('people.disable', { personId: eve.personId });
    await admin.mutate('tokens.revoke', { tokenId: program.tokenId });
    const atThatMoment = await Promise.all([bulkProgress(on, first), bulkProgress(on, second)]);

    const isOver = ({ state }: BulkProgress): boolean => state !== 'running';
    for (const [at, bulkId] of [first, second].entries()) {
      const { state, done } = await bulkProgressWhen(on, bulkId, isOver);
      expect(state).toBe('aborted');
      expect(done).toBeLessThanOrEqual((atThatMoment[at]?.done ?? 0) + 50);
    }
    expect(await admin.query('audit.list', { action: 'bulk.abort' })).toMatchObject({
      items: expect.arrayContaining([
        expect.objectContaining({ resource: `bulk:${first}`, actor: 'controller' }),
        expect.objectContaining({ resource: `bulk:${second}`, actor: 'controller' }),
      ]) as [],
    });
  });

  test.each([
    ['WebSocket', progressOverWebSocket],
    ['server-sent events', progressOverSse],
  ] as const)(
    'can be watched over %s from now to its end, never backwards, and then the stream ends',
    async (_transport, watch) => {
      const { secret } = await on.token('client');
      const operator = await on.token('operator');
      const items = await acquireLeases(on, secret, 600, randomUUID());

      const bulkId = await startBulkAction(on, operator.secret, { action: 'revoke', items });
      const told = await watch(on, bulkId);

      const done = told.map((progress) => progress.done);
      expect(done).toEqual([...done].sort((a, b) => a - b));
      expect(told.length).toBeGreaterThan(2);
      expect(told.at(-1)).toMatchObject({ state: 'done', done: 600, failedCount: 0 });
    },
  );
});

/** Everything that a watcher receives, until the stream ends. */
async function progressOverWebSocket(on: TestController, bulkId: string): Promise<BulkProgress[]> {
  const api = await on.client('viewer', 'ws');
  return new Promise((resolve, reject) => {
    const told: BulkProgress[] = [];
    const subscription = api.bulk.watch.subscribe(
      { bulkId },
      {
        onData: (progress) => told.push(progress),
        onError: reject,
        onComplete: () => {
          resolve(told);
        },
      },
    );
    onTestFinished(() => {
      subscription.unsubscribe();
    });
  });
}

/** The same over server-sent events, as a browser gets it. */
async function progressOverSse(on: TestController, bulkId: string): Promise<BulkProgress[]> {
  const { secret } = await on.token('viewer');
  const response = await fetch(`${on.url}/trpc/bulk.watch${input({ bulkId })}`, {
    headers: { authorization: `Bearer ${secret}`, accept: 'text/event-stream' },
  });
  const messages = (await response.text()).split('\n\n').filter((text) => !text.includes('event:'));
  return messages.flatMap((text) => {
    const [, data] = /^data: (.*)$/mu.exec(text) ?? [];
    return data === undefined ? [] : [JSON.parse(data) as BulkProgress];
  });
}
