import { describe, expect, onTestFinished, test } from 'vitest';
import { fillDatabase } from '../../testing/explaining.ts';
import { openKernel } from '../../testing/kernel-fixture.ts';
import { countBackends, getBackend, listBackends, readBackendStates } from './backends.ts';
import { heldLeaseIds, chooseDrone } from './drones.ts';
import { acknowledgeAction, readOutboxes } from './outbox.ts';

const DRONES = 200;
const BACKENDS = 40_000;

/** Many backends and actions of the past, and a few living ones of each drone. */
const FILL = `
    insert into drone (id, datacenter, clock_id, session, version, programs, capacity, registered_at,
      local_time_ms, heartbeat_at, usage_at, usage)
    select 'd' || i, 'local', gen_random_uuid(), 1, 'v', '[{"name":"room"}]', 100, now(), 1, now(), now(),
      jsonb_build_object('b' || (i * 199), jsonb_build_array(1, 1))
    from generate_series(1, ${String(DRONES)}) i;
    insert into backend (id, drone_id, datacenter, clock_id, program, args, env, namespace, name, tag, lease_id,
      fencing_token, status, status_rank)
    select 'b' || i, 'd' || (1 + i % ${String(DRONES)}), 'local', gen_random_uuid(), 'room', '[]', '{}', '', 'k' || i, '',
      gen_random_uuid(), i, 'terminated', case when i % 199 = 0 then 4 else 7 end
    from generate_series(1, ${String(BACKENDS)}) i;
    insert into backend_state (backend_id, status)
    select 'b' || i, 'terminated' from generate_series(1, ${String(BACKENDS)}) i;
    insert into backend_action (backend_id, drone_id, kind, payload, acked_at)
    select 'b' || i, 'd' || (1 + i % ${String(DRONES)}), 'spawn', '{}',
      case when i % 1000 = 0 then null else now() end
    from generate_series(1, ${String(BACKENDS)}) i`;

describe('plans of the fleet', () => {
  test('no statement of a session or a spawn reads all past rows', async () => {
    const kernel = await openKernel();
    const { explaining, close } = await fillDatabase(kernel.databaseUrl, FILL);
    onTestFinished(close);
    const { sql, plans } = explaining();
    const explained = (run: Promise<unknown>): Promise<unknown> =>
      // A statement without rows throws; only the plan matters.
      run.catch(() => undefined);
    const ref = { droneId: 'd1', clockId: '00000000-0000-4000-8000-000000000000', session: 1 };

    await explained(readOutboxes(sql, ['d1', 'd2', 'd3']));
    await explained(acknowledgeAction(sql, { ...ref, actionId: '1' }));
    await explained(getBackend(sql, 'b1', null));
    await explained(readBackendStates(sql, 'b1', '0'));
    await explained(listBackends(sql, { sort: 'memory', limit: 100 }, null));
    await explained(heldLeaseIds(sql, 'd1'));
    await explained(
      chooseDrone(
        { general: sql },
        {
          program: 'room',
          args: [],
          env: {},
          datacenter: 'local',
          heartbeatMs: 1_000,
          random: () => 0,
        },
      ),
    );

    expect(plans).toHaveLength(8);
    for (const plan of plans) expect(plan).not.toMatch(/Seq Scan on backend/u);
  });

  test('what runs is listed and counted without reading what has ended', async () => {
    const kernel = await openKernel();
    const { planOf, close } = await fillDatabase(kernel.databaseUrl, FILL);
    onTestFinished(close);
    const running = [
      { droneId: 'd1', live: true },
      { droneId: 'd1', status: 'ready' },
    ] as const;

    const plans: string[] = [];
    for (const filter of running) {
      plans.push(await planOf((sql) => listBackends(sql, { ...filter, limit: 100 }, null)));
      plans.push(await planOf((sql) => countBackends(sql, filter, null)));
    }
    plans.push(await planOf((sql) => countBackends(sql, { live: true }, null)));

    for (const plan of plans) expect(plan).toMatch(/Index Cond: .*status_rank [<=]/u);
  });
});
