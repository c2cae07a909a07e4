import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { UpdateOutcome } from '../kernel/lease.ts';
import { openSession, someoneWaits } from '../testing/coordinator-fixture.ts';
import {
  age,
  eventsOf,
  granted,
  type Kernel,
  openKernel,
  releaseOf,
  renewalOf,
} from '../testing/kernel-fixture.ts';
import { updateHeld } from './renewing.ts';
import type { UpdateRequest } from './sql/renew.ts';
import { revoke } from './sql/revoke.ts';

type Ref = Parameters<typeof renewalOf>[0];

const update = (
  { store }: Kernel,
  ref: Ref,
  change: Partial<UpdateRequest> = {},
  face: 'lease' | 'environment' = 'lease',
): Promise<UpdateOutcome> =>
  updateHeld(store, face, { ...renewalOf(ref), actor: 'alice', metadata: 'mine', ...change });

async function metadataOf({ store }: Kernel): Promise<unknown> {
  const [row] = await store.general.$queryRaw<{ metadata: unknown }[]>`
    select metadata from lease where name = 'thing'`;
  return row?.metadata;
}

const refusedFor = (reason: string) => ({ outcome: 'refused', reason });

describe('update', () => {
  test('replaces the metadata of a grant in force, with one event, and does not renew it', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel, { metadata: { url: 'http://a' } });
    const metadata = { url: 'http://b', weights: [1, 2.5] };

    expect(await update(kernel, grant, { metadata })).toEqual({ outcome: 'updated' });

    expect(await metadataOf(kernel)).toEqual(metadata);
    const [row] = await kernel.store.general.$queryRaw<{ isSame: boolean; detail: unknown }[]>`
      select l.expires_at = l.granted_at + l.ttl_ms * interval '1 millisecond' as "isSame", e.detail
      from lease l join lease_event e on e.lease_id = l.lease_id and e.kind = 'updated'`;
    expect(row).toEqual({ isSame: true, detail: { holder: 'alice', metadata } });
    expect(await update(kernel, grant, { metadata: null })).toEqual({ outcome: 'updated' });
    expect(await metadataOf(kernel)).toBeNull();
  });

  test('is refused for a grant that has ended, with its end as the reason, and changes nothing', async () => {
    const kernel = await openKernel();
    const { general } = kernel.store;
    const released = await granted(kernel);
    await kernel.leases.release('lease', releaseOf(released));
    expect(await update(kernel, released)).toEqual(refusedFor('released'));
    const revoked = await granted(kernel);
    const operator = { actor: 'op', reason: 'x', namespaces: null, abandon: false };
    await revoke(general, 'lease', [{ ...operator, leaseId: revoked.leaseId, mode: 'force' }]);
    expect(await update(kernel, revoked)).toEqual(refusedFor('revoked'));
    const expired = await granted(kernel);
    await age(kernel, expired.leaseId, 60_000);
    expect(await update(kernel, expired)).toEqual(refusedFor('expired'));
    // Permanently, whatever the clock says later.
    await age(kernel, expired.leaseId, -60_000);
    expect(await update(kernel, expired)).toEqual(refusedFor('expired'));
    await granted(kernel, { holder: 'bob', metadata: 'theirs' });

    for (const past of [released, revoked, expired]) {
      expect(await update(kernel, past)).toMatchObject({ outcome: 'refused' });
    }
    expect(await update(kernel, { leaseId: randomUUID(), fencingToken: '1' })).toEqual(
      refusedFor('not_found'),
    );
    expect(await metadataOf(kernel)).toBe('theirs');
    expect((await eventsOf(kernel, 'thing')).join()).not.toContain('updated');
  });

  test('needs the principal, the token and the face of the grant', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel, { metadata: 'as it was' });

    expect([
      await update(kernel, grant, { principal: 'token-b' }),
      await update(kernel, grant, { fencingToken: '1' }),
      await update(kernel, grant, {}, 'environment'),
    ]).toEqual(['not_found', 'superseded', 'not_found'].map(refusedFor));
    expect(await metadataOf(kernel)).toBe('as it was');
    expect(await kernel.leases.renew('lease', renewalOf(grant))).toMatchObject({
      outcome: 'renewed',
    });
  });

  test('that met a locked row until after the expiry is refused: it locks first, and judges then', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel, { metadata: 'as it was' });
    const session = await openSession(kernel);
    await session.query('begin');
    await session.query(
      `update lease set expires_at = expires_at - interval '1 hour' where lease_id = $1`,
      [grant.leaseId],
    );

    const updated = update(kernel, grant);
    await someoneWaits(kernel);
    await session.query('commit');

    expect(await updated).toEqual(refusedFor('expired'));
    expect(await metadataOf(kernel)).toBe('as it was');
  });

  test('that meets a takeover leaves the metadata of the next holder alone', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);
    const session = await openSession(kernel);
    await session.query('begin');
    await session.query(
      `update lease set lease_id = gen_random_uuid(), fencing_token = fencing_token + 1, holder = 'bob',
         metadata = '"theirs"' where lease_id = $1`,
      [grant.leaseId],
    );

    const updated = update(kernel, grant);
    await someoneWaits(kernel);
    await session.query('commit');

    expect(await updated).toEqual(refusedFor('superseded'));
    expect(await metadataOf(kernel)).toBe('theirs');
  });

  test('racing takeovers never give a holder the metadata of the one before', async () => {
    const kernel = await openKernel();
    for (let round = 0; round < 20; round += 1) {
      const old = await granted(kernel, { metadata: 'old' });
      const taking = (async () => {
        await age(kernel, old.leaseId, 60_000);
        return granted(kernel, { holder: 'bob', metadata: 'theirs' });
      })();
      await Promise.all(Array.from({ length: 5 }, () => update(kernel, old)));
      const next = await taking;

      expect(await metadataOf(kernel)).toBe('theirs');
      await kernel.leases.release('lease', releaseOf(next));
    }
  });

  test('is made beside a fenced transaction of the same grant', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);
    const session = await openSession(kernel);
    await session.query('begin');
    await session.query('select from lease where lease_id = $1 for key share', [grant.leaseId]);

    expect(await update(kernel, grant)).toEqual({ outcome: 'updated' });
    await session.query('rollback');
  });
});
