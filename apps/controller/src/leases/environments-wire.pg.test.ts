import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import {
  ENVIRONMENT_LEASE_MS,
  shareTestController,
  type TestController,
} from '../testing/test-controller.ts';
import { mutate, query } from '../testing/wire.ts';
import { refOf, type WireLease } from '../testing/wire-leases.ts';

describe('environments on the wire', () => {
  let on: TestController;
  let secret: string;
  shareTestController(async (shared) => {
    on = shared;
    ({ secret } = await on.token('client'));
  });

  const tryAcquire = (change: object): Promise<unknown> =>
    mutate(on, 'environments.tryAcquire', {
      secret,
      input: { action: 'verify', holder: 'host-1', localTimeMs: 1_000_000, ...change },
    });
  const release = (lease: WireLease): Promise<unknown> =>
    mutate(on, 'environments.release', { secret, input: refOf(lease) });
  async function acquired(change: object): Promise<WireLease> {
    return ((await tryAcquire(change)) as { lease: WireLease }).lease;
  }

  test('a free environment is granted for the configured time, with its action', async () => {
    const name = randomUUID();

    const answer = await tryAcquire({ environment: ['team', name], action: 'deploy' });

    expect(answer).toMatchObject({
      outcome: 'granted',
      action: 'deploy',
      lease: {
        namespace: ['team'],
        key: name,
        deadlines: { loseAtMs: expect.closeTo(1_075_000, -3) as number },
      },
    });
    expect(
      await query(on, 'environments.get', { secret, input: { environment: ['team', name] } }),
    ).toMatchObject({
      phase: 'held',
      action: 'deploy',
      holder: 'host-1',
      ttlMs: ENVIRONMENT_LEASE_MS,
    });
  });

  test('C30 a held one is refused with who holds it, since when, what for and why', async () => {
    const environment = randomUUID();
    await tryAcquire({ environment, comment: 'release 7', action: 'deploy' });

    expect(await tryAcquire({ environment, holder: 'host-2' })).toMatchObject({
      outcome: 'held',
      by: 'host-1',
      since: expect.stringMatching(/Z$/u) as string,
      comment: 'release 7',
      action: 'deploy',
    });
  });

  test('the history shows what each use was for and why, also after later uses', async () => {
    const environment = randomUUID();
    const lease = await acquired({ environment, action: 'deploy', comment: 'CHG-4471' });
    await release(lease);
    await acquired({ environment, action: 'reindex' });

    const history = await query(on, 'environments.history', { secret, input: { environment } });

    expect(history).toMatchObject({
      items: [
        { kind: 'granted', detail: { holder: 'host-1', action: 'reindex', comment: null } },
        { kind: 'released' },
        { kind: 'granted', detail: { holder: 'host-1', action: 'deploy', comment: 'CHG-4471' } },
      ],
    });
  });

  test('C34 one that an operator revokes is free at once; history and audit show it', async () => {
    const environment = randomUUID();
    const lease = await acquired({ environment });
    const operator = (await on.token('operator')).secret;

    await mutate(on, 'environments.revoke', {
      secret: operator,
      input: { leaseId: lease.leaseId, mode: 'force', reason: 'stuck' },
    });

    expect(await release(lease)).toEqual({ outcome: 'revoked' });
    expect(await tryAcquire({ environment })).toMatchObject({ outcome: 'granted' });
    const history = await query(on, 'environments.history', { secret, input: { environment } });
    expect(history).toMatchObject({
      items: [{ kind: 'granted' }, { kind: 'revoked', reason: 'stuck' }, { kind: 'granted' }],
    });
    const list = await query(on, 'environments.list', { secret, input: { name: environment } });
    expect(list).toMatchObject({ items: [{ name: environment, namespace: '' }] });
    const resource = `lease:${lease.leaseId}`;
    const audit = await query(on, 'audit.list', { secret: operator, input: { resource } });
    expect(audit).toMatchObject({ items: [{ action: 'environments.revoke' }] });
  });

  describe('that are waited for', () => {
    const acquire = (environment: string, holder: string, change: object = {}): Promise<unknown> =>
      mutate(on, 'environments.acquire', {
        secret,
        input: {
          environment,
          action: 'deploy',
          holder,
          localTimeMs: 1_000_000,
          idempotencyKey: randomUUID(),
          ...change,
        },
      });
    const queueOf = async (environment: string) =>
      (await query(on, 'environments.queue', { secret, input: { environment } })) as {
        waiting: { waiter: string }[];
        superseded: object[];
      };
    const inLine = (environment: string, ...holders: string[]) =>
      waitUntil(async () => {
        const { waiting } = await queueOf(environment);
        return waiting.map(({ waiter }) => waiter).join() === holders.join();
      });

    test('show who waits, and who was superseded by whom; the history and the audit keep it', async () => {
      const environment = randomUUID();
      const held = await acquired({ environment, action: 'deploy', holder: 'v1' });
      const old = acquire(environment, 'v2', { waitMs: 60_000, comment: '2' });
      await inLine(environment, 'v2');
      const newest = acquire(environment, 'v3', { waitMs: 60_000, supersede: 'running' });

      expect(await old).toBe('environment.superseded');
      await inLine(environment, 'v3');
      expect(await queueOf(environment)).toMatchObject({
        waiting: [{ place: 1, waiter: 'v3', action: 'deploy', comment: null, isPrior: false }],
        superseded: [{ waiter: 'v2', action: 'deploy', comment: '2', by: 'v3' }],
      });
      await release(held);
      expect(await newest).toMatchObject({ outcome: 'granted', action: 'deploy' });
      const operator = (await on.token('operator')).secret;
      const resource = `lease:${held.leaseId}`;
      const audit = await query(on, 'audit.list', { secret: operator, input: { resource } });
      expect(audit).toMatchObject({
        items: [{ action: 'environments.supersede', detail: { holder: 'v3', waiting: ['v2'] } }],
      });
    });

    test('refuse a caller that has lost its grant, and was superseded meanwhile; the queue shows it', async () => {
      const environment = randomUUID();
      const held = await acquired({ environment, action: 'deploy' });
      const again = randomUUID();
      const old = acquire(environment, 'v1', { waitMs: 60_000, idempotencyKey: again });
      await inLine(environment, 'v1');
      await release(held);
      await release(((await old) as { lease: WireLease }).lease);
      await acquire(environment, 'v2', { waitMs: 60_000, supersede: 'waiting' });
      const idempotencyKey = randomUUID();
      const ask = () => acquire(environment, 'v1', { waitMs: 60_000, again, idempotencyKey });

      expect([await ask(), await ask()]).toEqual(Array(2).fill('environment.superseded'));
      expect(await queueOf(environment)).toMatchObject({
        waiting: [],
        superseded: [{ waiter: 'v1', action: 'deploy', by: 'v2' }],
      });
    });

    test('answer a call whose time is over with the place in line', async () => {
      const environment = randomUUID();
      await acquired({ environment, holder: 'v1', comment: '1' });

      expect(await acquire(environment, 'v2', { waitMs: 600_000, callMs: 100 })).toMatchObject({
        outcome: 'waiting',
        by: 'v1',
        comment: '1',
        place: 1,
        frozen: null,
      });
    });

    test('are refused a request that could never be answered, with the field that is wrong', async () => {
      const environment = randomUUID();

      expect(await acquire(environment, 'v2', { supersede: 'running' })).toBe('request.invalid');
      expect(await acquire(environment, 'v2', { again: 'a key' })).toBe('request.invalid');
      const unkeyed = { waitMs: 600_000, idempotencyKey: undefined };
      expect(await acquire(environment, 'v2', unkeyed)).toBe('request.invalid');
    });
  });

  describe('that are frozen', () => {
    const as = async (role: 'operator') => (await on.token(role)).secret;
    const inAnHour = (): string => new Date(Date.now() + 3_600_000).toISOString();
    const freeze = async (by: string, change: object) =>
      (await mutate(on, 'environments.freeze', {
        secret: by,
        input: { reason: 'year end', until: inAnHour(), ...change },
      })) as { freeze: { freezeId: string }; stopped: number };

    test('are refused to everybody, with the reason, in the list of refusals too', async () => {
      const operator = await as('operator');
      const environment = ['shop', randomUUID()];
      const { freeze: made } = await freeze(operator, { environment });

      expect(await tryAcquire({ environment })).toBe('environment.frozen');
      // They are written together, a moment later.
      const input = { namespace: 'shop', name: environment[1] };
      const refusals = await waitUntil(async () => {
        const page = (await query(on, 'refusals.list', { secret, input })) as { items: object[] };
        return page.items.length > 0 ? page.items : undefined;
      });
      expect(refusals).toMatchObject([{ code: 'environment.frozen' }]);
      const shown = await query(on, 'environments.freezes', { secret, input: { environment } });
      expect(shown).toMatchObject({
        items: [
          { freezeId: made.freezeId, state: 'frozen', reason: 'year end', name: environment[1] },
        ],
      });
    });

    test('are overridden by operators with a reason, which the audit keeps', async () => {
      const operator = await as('operator');
      const environment = ['shop', randomUUID()];
      const { freeze: made } = await freeze(operator, { environment });
      const override = { reason: 'the fix for incident 12' };

      expect(await tryAcquire({ environment, override })).toBe('environment.frozen');
      const asked = { environment, action: 'deploy', holder: 'host-1', localTimeMs: 1, override };
      const idempotencyKey = randomUUID();
      const ask = () =>
        mutate(on, 'environments.tryAcquire', {
          secret: operator,
          input: { ...asked, idempotencyKey },
        });
      const granted = (await ask()) as { lease: WireLease };
      // An answer that was lost is asked for again: that is one override.
      expect(await ask()).toMatchObject({ lease: refOf(granted.lease) });

      const resource = `lease:${granted.lease.leaseId}`;
      const audit = await query(on, 'audit.list', { secret: operator, input: { resource } });
      expect(audit).toMatchObject({
        items: [
          {
            action: 'environments.overrideFreeze',
            reason: override.reason,
            detail: { action: 'deploy', freezes: [made.freezeId] },
          },
        ],
      });
    });

    test('are so until an operator ends the freeze; the audit keeps both acts', async () => {
      const operator = await as('operator');
      const environment = ['shop', randomUUID()];
      const { freeze: made } = await freeze(operator, { environment });

      await mutate(on, 'environments.unfreeze', {
        secret: operator,
        input: { freezeId: made.freezeId, reason: 'done early' },
      });

      expect(await tryAcquire({ environment })).toMatchObject({ outcome: 'granted' });
      const resource = `freeze:${made.freezeId}`;
      const audit = await query(on, 'audit.list', { secret: operator, input: { resource } });
      expect(audit).toMatchObject({
        items: [
          { action: 'environments.unfreeze', reason: 'done early' },
          { action: 'environments.freeze', reason: 'year end', detail: { name: environment[1] } },
        ],
      });
    });

    test('are stopped if that is asked: their holders are told to stop, gracefully', async () => {
      const operator = await as('operator');
      const environment = ['shop', randomUUID()];
      await acquired({ environment });

      expect(await freeze(operator, { environment, stopRunning: true })).toMatchObject({
        stopped: 1,
      });
      expect(await query(on, 'environments.get', { secret, input: { environment } })).toMatchObject(
        {
          phase: 'expiring',
        },
      );
    });
  });
});
