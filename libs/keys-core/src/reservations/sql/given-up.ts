import type { GivenUp } from '../given-up/given-up-types.ts';
import { onlyRow, type Sql } from '../../postgres/sql.ts';

/** The database's clock, in epoch milliseconds. */
export async function readClockMs(sql: Sql<'general'>): Promise<number> {
  const rows = await sql.$queryRaw<{ asOf: number }[]>`
    select extract(epoch from clock_timestamp())::float8 * 1000 as "asOf"`;
  return onlyRow(rows).asOf;
}

/** Notes that this datacenter was not given up at an instant, and for how long that counts. */
export async function noteConfirmed(
  sql: Sql<'general'>,
  { atMs, forMs }: { readonly atMs: number; readonly forMs: number },
): Promise<void> {
  await sql.$queryRaw`
    update reservation_membership
    set confirmed_at = to_timestamp(${atMs / 1000}::float8),
      confirmed_until = to_timestamp(${(atMs + forMs) / 1000}::float8)
    returning 1 as noted`;
}

/**
 * For how long a controller may still run without asking if this datacenter was given up, in milliseconds. A
 * clock that is behind the last time at which it was asked has gone back: then nothing is known, and it is 0.
 */
export async function readConfirmedForMs(sql: Sql<'general'>): Promise<number> {
  const rows = await sql.$queryRaw<{ forMs: number }[]>`
    select coalesce(
      case when c.now between m.confirmed_at and m.confirmed_until
        then extract(epoch from m.confirmed_until - c.now)
      end, 0)::float8 * 1000 as "forMs"
    from reservation_membership m, (select clock_timestamp() as now) c`;
  return onlyRow(rows).forMs;
}

/** Keeps what the store has, for a store that loses it. Doing it again changes nothing. */
export async function rememberGivenUp(sql: Sql<'general'>, givenUp: GivenUp): Promise<void> {
  await sql.$queryRaw`
    insert into reservation_given_up (datacenter, given_up)
    values (${givenUp.datacenter}, ${JSON.stringify(givenUp)}::jsonb)
    on conflict (datacenter) do nothing
    returning 1 as kept`;
}

/** The datacenters whose keys may be given other homes, as far as this database knows. */
export async function readGivenUp(sql: Sql<'general'>): Promise<GivenUp[]> {
  const rows = await sql.$queryRaw<{ givenUp: GivenUp }[]>`
    select g.given_up as "givenUp" from reservation_given_up g order by g.datacenter`;
  return rows.map(({ givenUp }) => givenUp);
}
