import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { fillDatabase, heldLeases } from '../../testing/explaining.ts';
import { A_GUARD, aRequest, openKernel } from '../../testing/kernel-fixture.ts';
import { downgrade } from './renew.ts';
import {
  countPlaces,
  joinEnvironmentLine,
  readQueue,
  readRunning,
  readSupersededGrant,
  supersedeWaiting,
} from './environment-line.ts';
import { grantAll, joinLines, leaveLines } from './grant-all.ts';
import { joinLine } from './line.ts';
import { openPools } from './open-pools.ts';
import { grantSlots, readPools } from './pools.ts';
import { firstLeaseId, leaseIdsFrom } from './requests.ts';

const ROWS = 100_000;

/** As many pools as half of the rows, each with a permit that is held; lines, requests and events as long. */
const POOLS = `
  insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
    renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at, released_at, end_reason,
    stops_by, pool, mode)
  select 'lease', 'p', 'k' || i, gen_random_uuid(), i, '', '', 4, 1, 2, 3, now(), now(), now(), now(), 'removed',
    '9999-12-31T00:00:00Z', 'k' || i, 'permit'
  from generate_series(1, ${String(ROWS / 2)}) i;
  insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
    renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at, pool, mode)
  select 'lease', 'p', 'k' || i || chr(31) || '1', gen_random_uuid(), i, 'h', 'p', 60000, 20000, 50000, 50000,
    now(), now(), now() + interval '1 minute', 'k' || i, 'permit'
  from generate_series(1, ${String(ROWS / 2)}) i;
  insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until, mode)
  select 'lease', 'p', 'k' || i, gen_random_uuid(), 'w', 'p', now() + interval '1 minute', 'permit'
  from generate_series(1, ${String(ROWS / 2)}) i;
  insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until, action, request_id)
  select 'environment', 'e', 'k' || i, gen_random_uuid(), 'w', 'p', now() + interval '1 minute', 'deploy', gen_random_uuid()
  from generate_series(1, ${String(ROWS / 2)}) i;
  insert into lease_request (id, lease_id)
  select gen_random_uuid(), gen_random_uuid() from generate_series(1, ${String(ROWS)});
  insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor)
  select 'lease', 'p', 'k' || i, gen_random_uuid(), i, 'granted', 'a' from generate_series(1, ${String(ROWS)}) i;
  insert into lease_declaration (namespace, ttl_ms, declared_by, principal, permits_per_key, permits_total, permits_by)
  select case i when 1 then 'p' else 'other' || i end, 60000, 's', 'p', 2, case i when 1 then null else 5 end, 's'
  from generate_series(1, 1000) i;`;

const ticketOf = (request: ReturnType<typeof aRequest>) => ({
  ...{ ...request, ticketId: request.leaseId, waiter: 'w', idempotencyKey: request.leaseId },
});

test('no statement of pools, of several leases or of lines of environments reads a whole table of 100,000 rows', async () => {
  const kernel = await openKernel();
  const fill = heldLeases(ROWS, `'n'`) + POOLS;
  const { explaining, close } = await fillDatabase(kernel.databaseUrl, fill);
  onTestFinished(close);
  const { sql, plans } = explaining();
  const slots = Array.from({ length: 20 }, (_, index) => {
    const isQueued = index % 2 === 0;
    const place = { namespace: 'p', name: `k${String(index + 1)}` };
    return { ...aRequest({ ...place, isQueued }), mode: 'permit' as const };
  });
  const pools = slots.map(({ namespace, name }) => ({
    ...{ namespace, name, kind: 'permit' as const, hasTotal: false },
  }));
  const ids = leaseIdsFrom(firstLeaseId(randomUUID()), 64);
  const group = ids.map((leaseId, index) =>
    aRequest({ namespace: 'n', name: `r${String(index + 1)}`, leaseId, isQueued: true }),
  );
  const [first, ...others] = group.map(ticketOf);
  if (first === undefined) throw new Error('there are 64');
  const environment = {
    ...ticketOf(aRequest({ face: 'environment', namespace: 'e', name: 'k7' })),
    ...{ action: 'deploy', priority: 0, isNewestFirst: false },
  };

  await grantSlots(sql, slots, { guard: A_GUARD, onLocked: 'skip' });
  await readPools(sql, slots, A_GUARD);
  await openPools(sql, pools, { guard: A_GUARD, onLocked: 'skip' });
  await downgrade(
    sql,
    { leaseId: first.leaseId, fencingToken: '1', principal: 'p', actor: 'a' },
    'skip',
  );
  await joinLine(sql, slots.map(ticketOf));
  await grantAll(sql, group, { guard: A_GUARD, onLocked: 'skip' });
  await joinLines(sql, { ...first, others });
  await expect(leaveLines(sql, { ...first, others, answer: {} })).rejects.toThrow(
    'one row expected',
  );
  await joinEnvironmentLine(sql, environment);
  await supersedeWaiting(sql, environment, {});
  await readRunning(sql, environment);
  await expect(countPlaces(sql, environment, 10)).rejects.toThrow('one row expected');
  await readQueue(sql, environment, 100);
  await readSupersededGrant(sql, first.leaseId);

  expect(plans).toHaveLength(14);
  for (const plan of plans) {
    expect(plan).not.toMatch(/Seq Scan on (?:lease|lease_waiter|lease_event|lease_request)\b/u);
  }
});
