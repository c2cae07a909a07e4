import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { revoke } from '../grants/sql/revoke.ts';
import { granted } from '../testing/kernel-fixture.ts';
import { OPERATOR } from '../testing/keys-fixture.ts';
import { acquired, released, SERVICE } from '../testing/lease-fixture.ts';
import { openOperatedLeases, type OperatedLeases } from '../testing/lease-operations-fixture.ts';
import type { GrantedLease, RevocationNotice } from './lease-types.ts';

const OTHER = { ...SERVICE, principal: 'token-x', actor: 'other' };

/** Listens as a holder does, until the test ends or ends it. */
function listen(on: OperatedLeases, caller = SERVICE): { heard: RevocationNotice[]; end(): void } {
  const heard: RevocationNotice[] = [];
  const ending = new AbortController();
  const over = (async () => {
    for await (const notice of on.operations.revocations(caller, ending.signal)) heard.push(notice);
  })();
  onTestFinished(async () => {
    ending.abort();
    await over;
  });
  return {
    heard,
    end: () => {
      ending.abort();
    },
  };
}

function force(on: OperatedLeases, { leaseId }: GrantedLease, reason = 'stuck'): Promise<unknown> {
  return on.operations.revoke({ leaseId, mode: 'force', reason }, OPERATOR);
}

/** Revokes without a hint, as if the hint were lost. */
function forceUnheard(on: OperatedLeases, { leaseId }: { leaseId: string }): Promise<unknown> {
  const request = { leaseId, mode: 'force' as const, reason: 'unseen', abandon: false };
  return revoke(on.store.general, 'lease', [{ ...request, actor: 'o', namespaces: null }]);
}

async function heardInTime(heard: RevocationNotice[], leaseId: string): Promise<RevocationNotice> {
  return waitUntil(() => heard.find((notice) => notice.leaseId === leaseId), {
    withinMs: 1_000,
    what: 'the notice, within a second',
  });
}

async function heardOf(heard: RevocationNotice[], leaseId: string): Promise<RevocationNotice> {
  return waitUntil(() => heard.find((notice) => notice.leaseId === leaseId), {
    what: 'the notice',
  });
}

const idsOf = (heard: RevocationNotice[]): string[] => heard.map(({ leaseId }) => leaseId);

describe('revocations', () => {
  test('I15 a holder learns within a second that its lease was revoked at another controller, and why', async () => {
    const one = await openOperatedLeases();
    const two = await openOperatedLeases({ databaseUrl: one.databaseUrl });
    const { heard } = listen(one);
    const stuck = await acquired(one, { name: 'stuck' });
    const blocked = await acquired(one, { name: 'blocked' });
    const drained = await acquired(one, { name: 'drained' });

    await force(two, stuck);
    await two.operations.blockRenewal({ leaseId: blocked.leaseId, reason: 'freeze' }, OPERATOR);
    const { leaseId } = drained;
    await two.operations.revoke({ leaseId, mode: 'graceful', reason: 'drain' }, OPERATOR);

    const left = expect.closeTo(60_000, -4) as number;
    expect(await heardInTime(heard, stuck.leaseId)).toEqual({
      leaseId: stuck.leaseId,
      kind: 'revoked',
      reason: 'stuck',
      stopsByMs: left,
    });
    expect(await heardInTime(heard, blocked.leaseId)).toMatchObject({
      kind: 'revoking',
      reason: 'freeze',
      stopsByMs: left,
    });
    expect(await heardInTime(heard, leaseId)).toMatchObject({ kind: 'revoking', reason: 'drain' });
  });

  test('I15 F14 a holder learns of a revocation within a second although the hint is lost', async () => {
    const on = await openOperatedLeases();
    const { heard } = listen(on);
    const marker = await acquired(on, { name: 'marker' });
    await force(on, marker);
    await heardInTime(heard, marker.leaseId);

    const lease = await acquired(on);
    await forceUnheard(on, lease);

    expect(await heardInTime(heard, lease.leaseId)).toMatchObject({ kind: 'revoked' });
  });

  test('are delivered once, to every session of the holder and to nobody else', async () => {
    const on = await openOperatedLeases();
    const [first, second, other] = [listen(on), listen(on), listen(on, OTHER)];
    const own = await acquired(on, { name: 'own' });
    const others = await acquired(on, { name: 'others' }, { caller: OTHER });

    await force(on, own);
    await force(on, others);
    await heardOf(first.heard, own.leaseId);
    await heardOf(other.heard, others.leaseId);
    // Meanwhile the watch reads again what it has seen already.
    const marker = await acquired(on, { name: 'marker' });
    await forceUnheard(on, marker);
    await heardOf(first.heard, marker.leaseId);

    expect(idsOf(first.heard)).toEqual([own.leaseId, marker.leaseId]);
    expect(idsOf(second.heard)).toEqual([own.leaseId, marker.leaseId]);
    expect(idsOf(other.heard)).toEqual([others.leaseId]);
  });

  test('reach the former holder, also when somebody else holds the resource by now', async () => {
    const on = await openOperatedLeases();
    const old = await acquired(on);
    await force(on, old);
    const next = await acquired(on, {}, { caller: OTHER });

    const [first, other] = [listen(on), listen(on, OTHER)];
    await heardOf(first.heard, old.leaseId);
    await force(on, next);
    await heardOf(other.heard, next.leaseId);

    expect(idsOf(first.heard)).toEqual([old.leaseId]);
    expect(idsOf(other.heard)).toEqual([next.leaseId]);
  });

  test('a session that reconnects learns what was revoked meanwhile, also beside one that stayed', async () => {
    const on = await openOperatedLeases();
    const stayed = listen(on);
    const lease = await acquired(on);
    await force(on, lease);
    await heardOf(stayed.heard, lease.leaseId);

    const back = listen(on);
    await heardOf(back.heard, lease.leaseId);

    expect(idsOf(stayed.heard)).toEqual([lease.leaseId]);
    expect(idsOf(back.heard)).toEqual([lease.leaseId]);
  });

  test('are delivered even if their event was numbered early and committed late', async () => {
    const on = await openOperatedLeases();
    const { heard } = listen(on);
    const late = await acquired(on, { name: 'late' });
    const early = await acquired(on, { name: 'early' });
    const client = new pg.Client({ connectionString: on.databaseUrl });
    await client.connect();
    onTestFinished(() => client.end());
    await client.query('begin');
    await client.query(
      `insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
       values ('lease', 'user.update', 'late', $1, 1, 'revoked', 'o', '{"mode":"force"}')`,
      [late.leaseId],
    );

    await force(on, early);
    await heardOf(heard, early.leaseId);
    await client.query('commit');

    await heardOf(heard, late.leaseId);
    expect(idsOf(heard)).toEqual([early.leaseId, late.leaseId]);
  });

  test('each of 2500 revocations at once is delivered once', async () => {
    const on = await openOperatedLeases();
    const { heard } = listen(on);
    const { leaseId } = await acquired(on);
    await on.store.general.$queryRaw`
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select 'lease', 'user.update', '42', ${leaseId}::uuid, i, 'revoked', 'o', '{"mode":"force"}'
      from generate_series(1, 2500) i
      returning id::text`;

    await waitUntil(() => heard.length >= 2_500);
    const marker = await acquired(on, { name: 'marker' });
    await forceUnheard(on, marker);
    await waitUntil(() => idsOf(heard).includes(marker.leaseId));

    expect(heard).toHaveLength(2_501);
  });

  test('are delivered although a restored database gives their events smaller numbers than before', async () => {
    const on = await openOperatedLeases();
    const { heard } = listen(on);
    const lost = await acquired(on, { name: 'lost' });
    // Old enough that everything up to it counts as read.
    await on.store.general.$executeRaw`
      insert into lease_event (
        id, at, face, namespace, name, lease_id, fencing_token, kind, actor, detail
      )
      overriding system value
      values (1000000, clock_timestamp() - interval '11 s', 'lease', 'user.update', 'lost',
        ${lost.leaseId}::uuid, 1, 'revoked', 'o', '{"mode":"force"}')`;
    await heardOf(heard, lost.leaseId);
    await on.store.general.$executeRaw`delete from lease_event where id = 1000000`;
    await on.store.general.$executeRaw`update database_epoch set epoch = epoch + 1`;

    const lease = await acquired(on);
    await force(on, lease);

    await heardOf(heard, lease.leaseId);
    expect(on.failures).toEqual([]);
  });

  test('of keys are not delivered to holders of leases, and delay nothing', async () => {
    const on = await openOperatedLeases();
    const { heard } = listen(on);
    const key = await granted(on, { face: 'key', name: 'k', principal: SERVICE.principal });
    const request = { leaseId: key.leaseId, mode: 'force' as const, reason: 'x', abandon: false };
    await revoke(on.store.general, 'key', [{ ...request, actor: 'o', namespaces: null }]);
    const lease = await acquired(on);
    await force(on, lease);

    await heardOf(heard, lease.leaseId);
    expect(idsOf(heard)).toEqual([lease.leaseId]);
  });

  test('a session ends with its signal, and the next one begins to listen again', async () => {
    const on = await openOperatedLeases();
    const first = listen(on);
    expect(on.revocations.sessionCount).toBe(1);

    first.end();
    await waitUntil(() => on.revocations.sessionCount === 0);
    const lease = await acquired(on);
    const second = listen(on);
    await force(on, lease);

    await heardOf(second.heard, lease.leaseId);
    expect(first.heard).toEqual([]);
    expect(await released(on, lease)).toBe('revoked');
    expect(on.failures).toEqual([]);
  });
});
