import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { touchBackends } from '../keys/index.ts';
import { fillDatabase, type FilledDatabase } from '../testing/explaining.ts';
import { keepStart, readNews, readSigning, readStart, recordUses } from './sql.ts';

const BACKENDS = 50_000;
const USES = 10_000;

let planOf: FilledDatabase['planOf'];
let leaseIds: string[];

beforeAll(async () => {
  const database = await createTestDatabase();
  const filled = await fillDatabase(
    database.url,
    `insert into backend (id, drone_id, datacenter, clock_id, program, args, env, namespace, name, tag,
      lease_id, fencing_token, status, status_rank, address)
    select 'bk-' || i, 'd' || (i % 100), 'local', gen_random_uuid(), 'room', '[]', '{}', 'n', 'k' || i, '',
      gen_random_uuid(), i, 'ready', 4, 'h:1'
    from generate_series(1, ${String(BACKENDS)}) i;
    insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
      renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
    select 'key', b.namespace, b.name, b.lease_id, b.fencing_token, 'h', 'p', 60000, 20000, 50000, 50000,
      now(), now(), now() + interval '1 minute'
    from backend b;
    insert into backend_action (backend_id, drone_id, kind, payload)
    select b.id, b.drone_id, 'spawn', '{}' from backend b;
    insert into gateway_key (kid, public_x, private_d) values ('k', 'x', 'd');
    insert into gateway_start (id, spec, until)
    select 's' || i, '{}', now() + interval '1 day' from generate_series(1, 10000) i;
    insert into gateway_revocation (id, namespace, user_name, at, until, revoked_by, reason)
    select gen_random_uuid(), '', 'u' || i, now(), now() + interval '1 day', 't', 't'
    from generate_series(1, 10000) i;
    insert into gateway_use (lease_id, gateway_id, connections, users, requests, requests_per_second, at)
    select b.lease_id, 'g' || (i % 3), 1, 1, 1, 1, now() from backend b, generate_series(0, 1) i`,
  );
  ({ planOf } = filled);
  const { rows } = await filled.client.query<{ id: string }>(
    `select lease_id::text as id from backend limit ${String(USES)}`,
  );
  leaseIds = rows.map(({ id }) => id);
  return async () => {
    await filled.close();
    await database.drop();
  };
});

test('10,000 uses are noted and judged by one statement, each by probes of indexes', async () => {
  const plan = await planOf((sql) =>
    touchBackends(
      sql,
      leaseIds.map((leaseId) => ({ leaseId, usedAgoMs: 0 })),
    ),
  );

  expect(leaseIds).toHaveLength(USES);
  expect(plan).toContain('backend_lease_id_key');
  expect(plan).toContain('lease_lease_id_key');
  expect(plan).toContain('backend_action_backend_id_idx');
  expect(plan).not.toContain('Seq Scan');
});

test('10,000 uses are written by one statement, which reads no table', async () => {
  const use = { connections: 1, users: 1, requests: 1 };
  const plan = await planOf((sql) =>
    recordUses(
      sql,
      { gatewayId: 'g1', version: '1', connections: 1, routes: 1 },
      leaseIds.map((leaseId) => ({ leaseId, ...use })),
    ),
  );

  expect(plan.match(/Insert on gateway_use/gu)).toHaveLength(1);
  expect(plan).toContain('gateway_use_pkey');
  expect(plan).not.toContain('Seq Scan');
});

test('what each sync and each token asks for is found by an index, however many revocations there are', async () => {
  const news = await planOf((sql) => readNews(sql));
  expect(news).toContain('gateway_revocation_place_key');
  expect(news).not.toContain('Seq Scan on gateway_revocation');
  const signing = await planOf((sql) => readSigning(sql));
  expect(signing).not.toContain('Seq Scan on gateway_revocation');
  expect(await planOf((sql) => readStart(sql, 's7'))).toContain('gateway_start_pkey');
  const start = { id: randomUUID(), spec: '{}', untilMs: Date.now() };
  expect(await planOf((sql) => keepStart(sql, start))).not.toContain('Seq Scan');
});
