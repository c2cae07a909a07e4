/** What is found by an id in a text, and not by a part of its name. */
import { resourceText } from '../../kernel/resource/resource-text.ts';
import type { FoundKind } from '../../kernel/found-kinds.ts';
import { PHASE_CONDITIONS, withinLimits } from '../../lists/index.ts';
import { C, fragment, type Sql } from '../../postgres/sql.ts';
import type { IdsInText } from '../ids-in-text.ts';
import type { FoundBy, FoundView } from '../search-types.ts';

interface IdsAsked {
  readonly ids: IdsInText;
  readonly kinds: readonly FoundKind[];
  readonly namespaces: readonly string[] | null;
  readonly datacenter: string;
  readonly limit: number;
}

interface FoundRow {
  readonly kind: FoundKind;
  readonly namespace: string;
  readonly name: string;
  readonly id: string;
  readonly state: string;
  readonly isLive: boolean;
  readonly detail: string;
  readonly keyName: string | null;
  readonly by: FoundBy;
}

/**
 * Keys, leases, environments and backends by what a line of a log says of them: the id of a grant, also of one that has
 * ended, as long as its events are kept; the ticket of a caller that waits; the fencing token or the holder of the newest
 * grant; the id or the address of a backend.
 *
 * Indexes: `lease_lease_id_key`, `lease_event_lease_id_idx`, `lease_waiter_ticket_id_key`, `lease_pkey`, the primary key of
 * backends. Tokens, holders and addresses have no index: a text with one of them reads the table once. Locks nothing.
 */
export async function findIds(sql: Sql<'reads'>, asked: IdsAsked): Promise<FoundView[]> {
  const { ids, namespaces, datacenter, limit } = asked;
  const { uuids, tokens, addresses, backendIds, holders } = ids;
  if ([uuids, tokens, addresses, backendIds, holders].every((some) => some.length === 0)) return [];
  const kinds = [...asked.kinds];
  const isOfRow = fragment`l.face = any(${kinds}::text[]) and ${withinLimits(namespaces, fragment`l.namespace`)}
    and (l.face <> 'key' or l.home_reservation is null
      or starts_with(l.home_reservation, ${`${datacenter}.`} ${C}))`;
  const rows = await sql.$queryRaw<FoundRow[]>`
    with named as (
      select e.face, e.namespace, e.name, 'lease_id' as by
      from lease_event e
      where e.lease_id = any(${uuids}::uuid[])
      union
      select w.face, w.namespace, w.name, 'ticket'
      from lease_waiter w
      where w.ticket_id = any(${uuids}::uuid[])
    ),
    rows as (
      select l.*, 'lease_id' as by from lease l where l.lease_id = any(${uuids}::uuid[])
      union all
      select l.*, n.by from named n
      join lease l on l.face = n.face and l.namespace = n.namespace and l.name = n.name
      union all
      select l.*, 'token' from lease l
      where ${tokens.length > 0}::boolean and l.fencing_token = any(${tokens}::bigint[])
      union all
      (
        select l.*, 'holder' from lease l
        where ${holders.length > 0}::boolean and l.holder = any(${holders}::text[])
          and (${PHASE_CONDITIONS.held} or ${PHASE_CONDITIONS.expiring})
        limit ${limit}
      )
    )
    select l.face as kind, l.namespace, l.name, l.lease_id::text as id, l.holder as detail,
      null as "keyName", l.by,
      case
        when ${PHASE_CONDITIONS.held} then 'held'
        when ${PHASE_CONDITIONS.expiring} then 'expiring'
        when ${PHASE_CONDITIONS.expired} then 'expired'
        else 'free'
      end as state,
      ${PHASE_CONDITIONS.held} or ${PHASE_CONDITIONS.expiring} as "isLive"
    from rows l
    where ${isOfRow}
    union all
    select 'backend', b.namespace, b.id, b.id, b.drone_id, b.name,
      case when b.id = any(${backendIds}::text[]) then 'backend_id' else 'address' end,
      b.status, b.status <> 'terminated'
    from backend b
    where 'backend' = any(${kinds}::text[]) and ${withinLimits(namespaces, fragment`b.namespace`)}
      and b.id in (
        select i.id from unnest(${backendIds}::text[]) as i (id)
        union
        select a.id from backend a
        where ${addresses.length > 0}::boolean and a.status_rank < 7
          and a.address = any(${addresses}::text[])
      )
    limit ${limit}`;
  return rows.map((row) => viewOf(row, datacenter));
}

function viewOf(row: FoundRow, datacenter: string): FoundView {
  const { kind, namespace, name, id, state, isLive, keyName, by } = row;
  const isBackend = kind === 'backend';
  return {
    ...{ kind, namespace, name, id, state, isLive, datacenter, by },
    detail: keyName === null ? row.detail : resourceText({ namespace, name: keyName }),
    text: isBackend ? id : resourceText({ namespace, name }),
    match: 'exact',
  };
}
