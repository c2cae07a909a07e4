import { onlyRow, type Sql } from '../../postgres/sql.ts';

/** Written by the statement that revoked a grant or blocked its renewal. */
export const REVOCATIONS_TOPIC = 'revocations';

/** The fact that a grant was revoked, or will not be renewed. */
export interface Revocation {
  /** Of the event. */
  readonly id: string;
  readonly face: string;
  readonly leaseId: string;
  /** Whose grant it is, or was: the resource may belong to somebody else by now. */
  readonly principal: string | null;
  /** Whether the grant has ended; otherwise it lasts until it expires. */
  readonly isForced: boolean;
  readonly reason: string | null;
  /** How long ago it was done, and how much longer the grant would have lasted. */
  readonly ageMs: number;
  readonly remainingMs: number;
}

/** Revocations, and of which history of the database: after a restore it gives the numbers of events again. */
export interface RevocationPage {
  /** Null before a controller has noted it. */
  readonly epoch: number | null;
  readonly revocations: readonly Revocation[];
}

/**
 * Reads revocations by the number of their events, without those that were seen already: numbers may
 * be committed out of order, so a reader looks again at a stretch that it has read.
 *
 * **Index**: `lease_event_revoked_idx`, `lease_lease_id_key`, `lease_event_lease_id_idx`. No
 * revocations: nothing was revoked that the reader has not seen.
 */
export async function readRevocations(
  sql: Sql<'general'>,
  from: { readonly afterId: string; readonly seenIds: readonly string[]; readonly limit: number },
): Promise<RevocationPage> {
  const rows = await sql.$queryRaw<({ epoch: number | null } & (Revocation | { id: null }))[]>`
    with fresh as materialized (
      select v.id, v.at, v.face, v.lease_id, v.kind, v.reason, v.detail
      from lease_event v
      where v.kind in ('revoked', 'renewal_blocked') and v.id > ${from.afterId}::bigint
        and v.id <> all (${from.seenIds}::bigint[])
      order by v.id
      limit ${from.limit}
    )
    select (select e.epoch from database_epoch e limit 1) as epoch, f.id::text as id, f.face, f.lease_id as "leaseId",
      coalesce(l.principal, g.principal) as principal,
      (f.kind = 'revoked' and f.detail ->> 'mode' = 'force') as "isForced", f.reason,
      extract(epoch from clock_timestamp() - f.at)::float8 * 1000 as "ageMs",
      greatest(0, coalesce(
        extract(epoch from
          coalesce((f.detail ->> 'stopsBy')::timestamptz, l.expires_at) - clock_timestamp()
        )::float8 * 1000,
        0
      )) as "remainingMs"
    from (select true) one
    left join fresh f on true
    left join lateral (
      select l.principal, l.expires_at from lease l where l.lease_id = f.lease_id limit 1
    ) l on true
    left join lateral (
      select v.detail ->> 'principal' as principal
      from lease_event v
      where v.lease_id = f.lease_id and v.kind in ('granted', 'taken_over')
      limit 1
    ) g on l.principal is null
    order by f.id`;
  return {
    epoch: rows[0]?.epoch ?? null,
    revocations: rows.flatMap(({ epoch: _, ...row }) => (row.id === null ? [] : [row])),
  };
}

/**
 * The number of the newest revocation that is older than `ageMs`; `0` for none. Looks from the newest
 * backwards, so that it reads what is younger and one row more. Index: `lease_event_revoked_idx`.
 */
export async function findRevocationBefore(sql: Sql<'general'>, ageMs: number): Promise<string> {
  const rows = await sql.$queryRaw<{ id: string }[]>`
    select coalesce((
      select v.id from lease_event v
      where v.kind in ('revoked', 'renewal_blocked')
        and v.at < clock_timestamp() - ${ageMs} * interval '1 millisecond'
      order by v.id desc
      limit 1
    ), 0)::text as id`;
  return onlyRow(rows).id;
}
