/** What tests of moving keys do again and again. */
import { recordHeartbeat } from '../../fleet/sql/drone-sessions.ts';
import type { ConnectResult } from '../../keys/key-types.ts';
import type { Moved } from '../../reservations/reservation-types.ts';
import { connectAt, type TestDatacenter, type TestDatacenters } from '../datacenters-fixture.ts';
import { keyNamed, OPERATOR, reportOf } from '../keys-fixture.ts';

export function move(at: TestDatacenter, toDatacenter: string, name = 'demo'): Promise<Moved> {
  return at.service.move({ key: ['', name], toDatacenter, reason: 'nearer' }, OPERATOR);
}

/** Keeps the drones reachable, however long the test takes. */
export async function sendHeartbeats(world: TestDatacenters): Promise<void> {
  for (const { store, drone } of world.all) {
    await recordHeartbeat(store.vital, { ...drone, localTimeMs: 1_000, load: {} });
  }
}

/** Ends the backend, so that its key is free. */
export async function end(
  world: TestDatacenters,
  { datacenter, backendId }: ConnectResult,
): Promise<void> {
  const home = world.get(datacenter);
  await home.keys.report(reportOf(home.drone, backendId, 'terminated'));
}

/** Connects through a datacenter, and ends the backend again. */
export async function visit(
  world: TestDatacenters,
  at: TestDatacenter,
  name = 'demo',
): Promise<ConnectResult> {
  const connected = await connectAt(at, { key: keyNamed(name) });
  await end(world, connected);
  return connected;
}

/** The datacenters that would grant the key now, according to their databases. */
export async function homesOf(world: TestDatacenters, name: string): Promise<string[]> {
  const homes = await Promise.all(
    world.all.map(async (one) => {
      const rows = await one.store.general.$queryRaw<{ one: number }[]>`
        select 1 as one from reservation r
        where r.state = 'active' and r.name = ${name}
          and not exists (
            select from lease l
            where l.face = 'key' and l.name = r.name and l.namespace = r.namespace
              and l.home_reservation <> r.reservation_id
          )`;
      return rows.length > 0 ? [one.name] : [];
    }),
  );
  return homes.flat();
}
