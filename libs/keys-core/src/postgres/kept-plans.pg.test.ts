import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { keptPlans } from '../testing/explaining.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import { age } from '../testing/kernel-fixture.ts';
import { connect, openKeys, reportOf } from '../testing/keys-fixture.ts';
import {
  acquire,
  acquired,
  inLine,
  openLeases,
  released,
  SERVICE,
} from '../testing/lease-fixture.ts';

/** Of these there is one row, or one for each controller, whatever is stored. */
const ONE_ROW = [
  'database_epoch',
  'lease_token_floor',
  'reservation_membership',
  'database_witness',
];
const OF_NO_TABLE = ['CTE Scan', 'Subquery Scan', 'Function Scan'];
const SCAN = /-> +(?<how>.*Scan)(?: using \S+)? on (?<table>[a-z_]+)/u;
/** All leases of a face are most leases. */
const UNSELECTIVE = /Index Cond: \(face = [^()]*\)$/u;

/** The scans of a plan that read every row of their table, or nearly every one. */
function wholeScansOf(plan: string): string[] {
  const lines = plan.split('\n');
  return lines.filter((line, at) => {
    const { how, table = '' } = SCAN.exec(line)?.groups ?? {};
    if (how === undefined || OF_NO_TABLE.includes(how) || ONE_ROW.includes(table)) return false;
    const after = lines.slice(at + 1);
    const next = after.findIndex((other) => SCAN.test(other) && how !== 'Bitmap Heap Scan');
    const own = after.slice(0, next === -1 ? undefined : next);
    const condition = own.find((other) => /(Index|TID) Cond/u.test(other));
    return condition === undefined || UNSELECTIVE.test(condition);
  });
}

test('no plan that a connection keeps reads a whole table, though all were empty when it was made', async () => {
  const leases = await openLeases();
  const { store, databaseUrl } = leases;
  const held = await acquired(leases);
  const idempotencyKey = randomUUID();
  const { answer } = await inLine(leases, 'waits', { idempotencyKey });
  await acquire(leases, { holder: 'is refused' });
  await leases.service.heartbeat(
    {
      renewals: [{ leaseId: held.leaseId, fencingToken: held.fencingToken }],
      localTimeMs: 0,
    },
    SERVICE,
  );
  await released(leases, held);
  await released(leases, held);
  const next = await answer;
  if (next.outcome === 'granted') await age(leases, next.lease.leaseId, 120_000);
  await acquire(leases, { idempotencyKey, holder: 'waits', waitMs: 60_000 });
  await acquire(leases, { holder: 'takes over' });
  await acquire(leases, { holder: 'gives up', waitMs: 1 });
  const cancelled = randomUUID();
  const { answer: over } = await inLine(leases, 'cancels', { idempotencyKey: cancelled });
  await leases.service.cancel({ idempotencyKey: cancelled }, SERVICE);
  await over.catch(() => undefined);
  await leases.service.cancel({ idempotencyKey }, SERVICE);
  const on = await openKeys({ databaseUrl });
  const drone = await aDrone(store.general);
  const made = await connect(on);
  await on.keys.report(reportOf(drone, made.backendId, 'ready', { address: '127.0.0.1:5000' }));
  await connect(on);

  const kept = [];
  for (const { transitions, renewals } of [store, on.store]) {
    kept.push(
      ...(await keptPlans(transitions.connections, databaseUrl)),
      ...(await keptPlans(renewals.connections, databaseUrl)),
    );
  }

  const whole = kept.flatMap(({ statement, plan }) =>
    wholeScansOf(plan).map((scan) => `${scan.trim()} in: ${statement.trim().slice(0, 400)}`),
  );
  expect(kept.length).toBeGreaterThan(15);
  expect([...new Set(whole)]).toEqual([]);
});
