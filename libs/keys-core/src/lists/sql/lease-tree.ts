import { RESERVED_NAMESPACE, type Face } from '../../kernel/resource/resource.ts';
import { PHASE_CONDITIONS, withinLimits, withinNamespace } from './lease-order.ts';
import { C, fragment, type Fragment, type Sql } from '../../postgres/sql.ts';

/** A namespace with how many of its resources, children's included, are in each phase. */
export interface NamespaceCounts {
  readonly namespace: string;
  readonly held: number;
  readonly expiring: number;
  readonly expired: number;
  readonly free: number;
  readonly waiters: number;
}

/**
 * Counts the resources in and below each namespace, from `namespace` downwards, nearest first: the limit
 * cuts off deep ones, never a whole branch. Counts and shows only what is within the caller's limits.
 *
 * Reads each resource of the face once and adds up by namespace before it looks at ancestors.
 * Index: the primary key, for `namespace`; the root reads the face's whole part of the table.
 */
export async function countByNamespace(
  sql: Sql<'reads'>,
  face: Face,
  which: {
    readonly namespace: string;
    readonly namespaces: readonly string[] | null;
    readonly withoutOwn?: boolean;
    readonly limit: number;
  },
): Promise<NamespaceCounts[]> {
  const { namespace, namespaces, withoutOwn, limit } = which;
  const asked = (column: Fragment): Fragment =>
    withoutOwn === true ? fragment`${column} <> ${RESERVED_NAMESPACE} ${C}` : fragment`true`;
  const waiterColumn = fragment`w.namespace`;
  const depth = namespace === '' ? 0 : namespace.split('.').length;
  return sql.$queryRaw<NamespaceCounts[]>`
    with own as materialized (
      select l.namespace,
        count(*) filter (where ${PHASE_CONDITIONS.held}) as held,
        count(*) filter (where ${PHASE_CONDITIONS.expiring}) as expiring,
        count(*) filter (where ${PHASE_CONDITIONS.expired}) as expired,
        count(*) filter (where ${PHASE_CONDITIONS.free}) as free,
        0 as waiters
      from lease l
      where l.face = ${face} ${C} and ${withinNamespace(namespace)} and ${withinLimits(namespaces)}
        and ${asked(fragment`l.namespace`)}
      group by l.namespace
      union all
      select w.namespace, 0, 0, 0, 0, count(*)
      from lease_waiter w
      where w.face = ${face} ${C} and w.valid_until > clock_timestamp()
        and ${withinNamespace(namespace, waiterColumn)} and ${withinLimits(namespaces, waiterColumn)}
        and ${asked(waiterColumn)}
      group by w.namespace
    )
    select n.ancestor as namespace,
      sum(o.held)::int as held, sum(o.expiring)::int as expiring, sum(o.expired)::int as expired,
      sum(o.free)::int as free, sum(o.waiters)::int as waiters
    from own o
    cross join lateral (
      select array_to_string((string_to_array(o.namespace, '.'))[1:i], '.') ${C} as ancestor
      from generate_series(${depth}::int, cardinality(string_to_array(o.namespace, '.'))) as i
    ) n
    where ${withinLimits(namespaces, fragment`n.ancestor`)}
    group by n.ancestor
    order by cardinality(string_to_array(n.ancestor, '.')), n.ancestor
    limit ${limit}`;
}
