import { type Fragment, fragment, NO_FRAGMENT, TOKEN_FLOOR } from '../../postgres/sql.ts';
import { PREVIOUS_END } from './facts.ts';

/**
 * When a new grant begins and ends, for an UPDATE: by one reading of the clock, because the time between the two tells
 * whether it is confirmed. `lasts` is an interval, and names a column of another row, so that each row has its own reading.
 */
export function setInstants(lasts: Fragment): Fragment {
  return fragment`
    (granted_at, renewed_at, expires_at) = (
      select n.at, n.at, n.at + ${lasts} from (select clock_timestamp() as at) n
    )`;
}

/**
 * The rows of `candidate` that are to be inserted, as `c`, in the order of locks. `now` is the one reading of the clock
 * for each.
 */
export function insertedInOrder(where = fragment`true`): Fragment {
  return fragment`
    (
      select c.*, clock_timestamp() as now
      from candidate c
      where ${where}
      order by c.face, c.namespace, c.name
    ) c`;
}

/**
 * The rows of the statement's `wanted`, in its order, whose resource has no row or one that is free by
 * `isFree` and could be locked; one that is locked is passed over. `where` is what else a request `w`
 * must fulfil. `ended_at` is when the last grant was released.
 */
export function freeCandidates(isFree: Fragment, where: Fragment): Fragment {
  return fragment`
    candidate as materialized (
      select w.*, k.ended_at
      from wanted w
      left join lateral (
        select l.released_at as ended_at, ${isFree} and coalesce((
            select true from lease t where t.ctid = l.ctid for update skip locked
          ), false) as is_free
        from lease l
        where l.face = w.face and l.namespace = w.namespace and l.name = w.name
        limit 1
      ) k on true
      where k.is_free is distinct from false
        and ${where}
    )`;
}

/** What a statement that grants writes in its own way. */
interface GrantedRowParts {
  /** Further columns of the row, each after a comma, and their values in a `candidate` `c`. */
  readonly columns: Fragment;
  readonly values: Fragment;
  /** The token of a row that is inserted, and of one that is there. */
  readonly firstToken: Fragment;
  readonly nextToken: Fragment;
  /** What else is set in a row that is there, after a comma. */
  readonly sets: Fragment;
  /** The resource's name. */
  readonly name: Fragment;
}

const ONE_HOLDER: GrantedRowParts = {
  columns: NO_FRAGMENT,
  values: NO_FRAGMENT,
  firstToken: fragment`lease_next_token(${TOKEN_FLOOR})`,
  nextToken: fragment`lease_next_token(greatest(l.fencing_token, ${TOKEN_FLOOR}))`,
  sets: NO_FRAGMENT,
  name: fragment`l.name`,
};

/**
 * Grants the rows of the statement's `candidate`, as its `granted`. `isFree` judges a row `l` that exists.
 *
 * - **Atomic because** `on conflict … do update … where` is the judge: its WHERE and its SET run
 *   after the row lock, on the newest version. What the statement saw before is only a choice of candidates.
 * - **The token** is computed in SET from the row. Under `excluded`, and in any column default, it
 *   would be computed before the lock is waited for, and was seen to go backwards.
 * - **At home**: a row that was sealed by a move names another reservation, and nothing is granted on it.
 */
export function upsertGrants(isFree: Fragment, parts = ONE_HOLDER): Fragment {
  return fragment`
    granted as (
      insert into lease as l (
        face, namespace, name, lease_id, fencing_token, holder, principal, tag, comment, metadata,
        ttl_ms, renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at,
        home_reservation${parts.columns}
      )
      select
        c.face, c.namespace, c.name, c.lease_id, ${parts.firstToken}, c.holder,
        c.principal, c.tag, c.comment, c.metadata, c.ttl_ms, c.renew_after_ms, c.soft_after_ms, c.hard_after_ms,
        c.now, c.now, c.now + c.first_ms * interval '1 millisecond',
        c.home_reservation${parts.values}
      from ${insertedInOrder()}
      on conflict (face, namespace, name) do update set
        lease_id = excluded.lease_id,
        previous_lease_id = l.lease_id,
        previous_fencing_token = l.fencing_token,
        previous_end = ${PREVIOUS_END},
        fencing_token = ${parts.nextToken},
        holder = excluded.holder,
        principal = excluded.principal,
        tag = excluded.tag,
        comment = excluded.comment,
        metadata = excluded.metadata,
        ttl_ms = excluded.ttl_ms,
        renew_after_ms = excluded.renew_after_ms,
        soft_after_ms = excluded.soft_after_ms,
        hard_after_ms = excluded.hard_after_ms,
        ${setInstants(fragment`(excluded.expires_at - excluded.renewed_at)`)},
        renewable = true,
        released_at = null,
        end_reason = null,
        stops_by = null,
        home_reservation = excluded.home_reservation${parts.sets}
      where ${isFree}
        and (l.home_reservation is null or l.home_reservation = excluded.home_reservation)
      returning
        l.face, l.namespace, ${parts.name}, l.lease_id, l.fencing_token, l.granted_at, l.expires_at,
        l.holder, l.principal, l.tag, l.comment,
        l.ttl_ms, l.renew_after_ms, l.soft_after_ms, l.hard_after_ms,
        l.previous_lease_id, l.previous_fencing_token, l.previous_end
    )`;
}
