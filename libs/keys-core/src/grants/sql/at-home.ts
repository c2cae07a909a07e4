/** Whether a key is at home in this database. */
import { LeaseError } from '../../kernel/errors/index.ts';
import type { GrantRequest } from '../../kernel/lease/outcomes.ts';
import { C, fragment, type Sql } from '../../postgres/sql.ts';

/**
 * Yields a row while this database, after a restore or a failover, has not yet learned from the
 * reservation store which keys had left it: it may wrongly take itself for the home of one.
 */
export const NOT_READ_BACK = fragment`
  select from reservation_membership m
  cross join database_epoch e
  where m.store_id is not null and m.synced_epoch is distinct from e.epoch`;

/**
 * Whether the reservation that a request `w` names is the active home of its key here. A reservation
 * that is absent was not activated yet; the lease row shows whether the key has left since.
 */
export const IS_ACTIVE_HOME = fragment`
  coalesce((
    select r.state = 'active' and r.namespace = w.namespace and r.name = w.name
    from reservation r
    where r.reservation_id = w.home_reservation
    limit 1
  ), false)`;

/**
 * @throws {LeaseError} `reservation.store_unreachable` while a restored database has not yet learned which
 * keys had left it: the reservation store has not answered.
 */
export async function assertReadBack(sql: Sql<'transitions'>): Promise<void> {
  const [row] = await sql.$queryRaw<{ one: number }[]>`
    select 1 as one where exists (${NOT_READ_BACK})`;
  if (row !== undefined) {
    throw new LeaseError(
      'reservation.store_unreachable',
      'The database was restored or failed over, and it is not yet known from the reservation store which keys had left it.',
    );
  }
}

/**
 * Whether a key may be granted under the reservation that the request names: it is the key's active home
 * here, and the key's row, if there is one, names no other. Index: the primary keys.
 */
export async function isAtHome(
  sql: Sql<'transitions'>,
  { namespace, name, homeReservation }: GrantRequest,
): Promise<boolean> {
  const rows = await sql.$queryRaw<{ one: number }[]>`
    select 1 as one
    from (
      select ${namespace} ${C} as namespace, ${name} ${C} as name, ${homeReservation} ${C} as home_reservation
    ) w
    where ${IS_ACTIVE_HOME} and not exists (
      select from lease l
      where l.face = 'key' and l.namespace = w.namespace and l.name = w.name
        and l.home_reservation <> w.home_reservation
    )`;
  return rows.length > 0;
}
