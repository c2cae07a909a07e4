import type { Datacenters } from '@leasehold/testing/datacenters';

/** A holding of a key, as the database that granted it records it. Times are of its clock. */
interface Holding {
  readonly datacenter: string;
  readonly leaseId: string;
  readonly token: bigint;
  readonly grantedAtMs: number;
  /** null: it has not ended. */
  readonly endedAtMs: number | null;
}

/** All holdings that a key ever had, in all datacenters, in the order of their tokens. */
async function holdingsOf(world: Datacenters, name: string): Promise<Holding[]> {
  const found = await Promise.all(
    world.names.map(async (datacenter) => {
      const rows = await world.dc(datacenter).query<{
        leaseId: string;
        token: string;
        grantedAtMs: number;
        endedAtMs: number | null;
      }>(
        `select g.lease_id as "leaseId", g.fencing_token::text as token,
          extract(epoch from g.at)::float8 * 1000 as "grantedAtMs",
          (select extract(epoch from min(e.at))::float8 * 1000 from lease_event e
            where e.lease_id = g.lease_id
              and e.kind in ('released', 'failed', 'expired', 'removed', 'revoked')) as "endedAtMs"
        from lease_event g
        where g.face = 'key' and g.name = $1 and g.kind in ('granted', 'taken_over')`,
        [name],
      );
      return rows.map((row) => ({ ...row, datacenter, token: BigInt(row.token) }));
    }),
  );
  return found.flat().sort((a, b) => (a.token < b.token ? -1 : 1));
}

/** Where the databases' records contradict one holder at a time; empty when they do not. */
export async function faultsOfHolders(world: Datacenters, name: string): Promise<string[]> {
  const holdings = await holdingsOf(world, name);
  const faults: string[] = [];
  for (const [index, next] of holdings.entries()) {
    const former = holdings[index - 1];
    if (former === undefined) continue;
    const where = `${name}: ${former.datacenter} ${String(former.token)}, ${next.datacenter} ${String(next.token)}`;
    if (former.token === next.token) faults.push(`${where}: one token twice`);
    if (former.grantedAtMs > next.grantedAtMs) faults.push(`${where}: the token went back`);
    if (former.endedAtMs === null || former.endedAtMs > next.grantedAtMs) {
      faults.push(`${where}: two holders`);
    }
  }
  return faults;
}

/** In which datacenters a key has ever had a backend. */
export async function backendPlacesOf(world: Datacenters, name: string): Promise<string[]> {
  const found = await Promise.all(
    world.names.map(async (datacenter) => {
      const rows = await world
        .dc(datacenter)
        .query(`select 1 from backend where name = $1 limit 1`, [name]);
      return rows.map(() => datacenter);
    }),
  );
  return found.flat();
}
