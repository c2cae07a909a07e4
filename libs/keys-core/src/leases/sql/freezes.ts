import { instant, limitLockWait } from '../../grants/index.ts';
import type { FreezePass, FreezePlace, Recurrence } from '../../kernel/freeze.ts';
import type { Named } from '../../kernel/resource.ts';
import { withinLimits, withinNamespace } from '../../lists/index.ts';
import { removeOld, type RetentionPass } from '../../postgres/retention-pass.ts';
import { C, type Fragment, fragment, NO_FRAGMENT, onlyRow, type Sql } from '../../postgres/sql.ts';

/** A freeze as it is stored. Instants are epoch milliseconds of the database. */
export interface FreezeRow extends FreezePlace {
  readonly freezeId: string;
  readonly action: string | null;
  readonly reason: string;
  readonly schedule: string | null;
  readonly durationMs: number | null;
  readonly zone: string | null;
  readonly windowFrom: number;
  readonly windowUntil: number;
  readonly passRoles: string[];
  readonly passPeople: string[];
  readonly createdBy: string;
  readonly createdAt: number;
  readonly removedBy: string | null;
  readonly removedAt: number | null;
  readonly removedReason: string | null;
  readonly isOver: boolean;
  readonly asOf: number;
}

const COLUMNS = fragment`
      f.freeze_id as "freezeId", f.namespace, f.name, f.action, f.reason, f.schedule,
      f.duration_ms::float8 as "durationMs", f.zone,
      extract(epoch from f.window_from)::float8 * 1000 as "windowFrom",
      extract(epoch from f.window_until)::float8 * 1000 as "windowUntil",
      f.pass_roles as "passRoles", f.pass_people as "passPeople", f.created_by as "createdBy",
      extract(epoch from f.created_at)::float8 * 1000 as "createdAt", f.removed_by as "removedBy",
      extract(epoch from f.removed_at)::float8 * 1000 as "removedAt", f.removed_reason as "removedReason",
      f.ends_at <= clock_timestamp() as "isOver",
      extract(epoch from clock_timestamp())::float8 * 1000 as "asOf"`;

const IS_CURRENT = fragment`(f.removed_at is null and f.ends_at > clock_timestamp())`;

/**
 * Keeps everybody from acquiring an environment until this transaction has ended, once those who have
 * found it not frozen are done. Read after the lock: the database's clock, how many freezes there are, and how many of
 * them `actor` has made.
 */
export async function takeFreezes(
  tx: Sql<'general'>,
  actor: string,
  lockMs: number,
): Promise<{ readonly asOf: number; readonly count: number; readonly ownCount: number }> {
  await limitLockWait(tx, lockMs);
  await tx.$queryRaw`lock table environment_freeze in exclusive mode`;
  const rows = await tx.$queryRaw<{ asOf: number; count: number; ownCount: number }[]>`
    select extract(epoch from clock_timestamp())::float8 * 1000 as "asOf", count(*)::int as count,
      count(*) filter (where f.created_by = ${actor})::int as "ownCount"
    from environment_freeze f
    where ${IS_CURRENT}`;
  return onlyRow(rows);
}

/** A freeze that is new. */
export interface NewFreeze extends FreezePlace {
  readonly freezeId: string;
  readonly action: string | null;
  readonly reason: string;
  readonly recurrence: Recurrence | null;
  readonly window: { readonly fromMs: number; readonly untilMs: number };
  readonly allow: FreezePass;
  readonly createdBy: string;
}

/** Adds a freeze, under the lock of {@link takeFreezes}. */
export async function insertFreeze(tx: Sql<'general'>, freeze: NewFreeze): Promise<FreezeRow> {
  const { recurrence, window, allow } = freeze;
  const rows = await tx.$queryRaw<FreezeRow[]>`
    insert into environment_freeze as f (
      freeze_id, namespace, name, action, reason, schedule, duration_ms, zone, window_from, window_until,
      ends_at, pass_roles, pass_people, created_by
    )
    values (
      ${freeze.freezeId}::uuid, ${freeze.namespace}, ${freeze.name}, ${freeze.action}, ${freeze.reason},
      ${recurrence?.schedule ?? null}, ${recurrence?.durationMs ?? null}::bigint, ${recurrence?.zone ?? null},
      ${instant(window.fromMs)}, ${instant(window.untilMs)},
      ${recurrence === null ? instant(window.untilMs) : fragment`'infinity'`},
      ${[...allow.roles]}::text[], ${[...allow.people]}::text[], ${freeze.createdBy}
    )
    returning ${COLUMNS}`;
  return onlyRow(rows);
}

/**
 * Ends a freeze. Locks its row, judges then. Zero rows: no freeze of this id is in force or still to come, or
 * the caller may not see it. Index: the primary key.
 */
export async function removeFreeze(
  sql: Sql<'general'>,
  freezeId: string,
  by: {
    readonly actor: string;
    readonly reason: string;
    readonly namespaces: readonly string[] | null;
  },
): Promise<FreezeRow | undefined> {
  const limits = by.namespaces === null ? null : JSON.stringify(by.namespaces);
  const rows = await sql.$queryRaw<FreezeRow[]>`
    with locked as materialized (
      select f.* from environment_freeze f
      where f.freeze_id = ${freezeId}::uuid and lease_is_within(f.namespace, ${limits}::jsonb)
      for no key update of f
    )
    update environment_freeze f
    set removed_by = ${by.actor}, removed_at = clock_timestamp(), removed_reason = ${by.reason}
    from locked k
    where f.freeze_id = k.freeze_id and k.removed_at is null and k.ends_at > clock_timestamp()
    returning ${COLUMNS}`;
  return rows[0];
}

/** Whether a freeze is about environments that the caller may see: it is among them, or above them. */
function concernsCaller(limits: readonly string[] | null): Fragment {
  if (limits === null) return fragment`true`;
  return fragment`(${withinLimits(limits, fragment`f.namespace`)} or f.name is null and exists (
        select from unnest(${[...limits]}::text[]) as allowed (namespace)
        where lease_is_within(allowed.namespace, jsonb_build_array(f.namespace))
      ))`;
}

export interface FreezeFilter {
  /** About this environment. */
  readonly environment?: Named | undefined;
  /** Of this namespace and its children. */
  readonly namespace?: string | undefined;
  readonly isHistoryWanted: boolean;
  readonly namespaces: readonly string[] | null;
  readonly after: readonly [createdAt: string, freezeId: string] | null;
  readonly limit: number;
}

function matching({ environment, namespace, isHistoryWanted }: FreezeFilter): Fragment {
  const isAbout =
    environment === undefined
      ? NO_FRAGMENT
      : fragment`
        and case
          when f.name is null then lease_is_within(${environment.namespace}, jsonb_build_array(f.namespace))
          else f.namespace = ${environment.namespace} ${C} and f.name = ${environment.name} ${C}
        end`;
  const isWithin =
    namespace === undefined
      ? NO_FRAGMENT
      : fragment` and ${withinNamespace(namespace, fragment`f.namespace`)}`;
  return fragment`${isHistoryWanted ? fragment`true` : IS_CURRENT}${isAbout}${isWithin}`;
}

/** A page of freezes, the newest first. Index: `environment_freeze_created_at_idx`. */
export function readFreezes(sql: Sql<'reads'>, filter: FreezeFilter): Promise<FreezeRow[]> {
  const [createdAt, freezeId] = filter.after ?? [null, null];
  return sql.$queryRaw<FreezeRow[]>`
    select ${COLUMNS}
    from environment_freeze f
    where ${matching(filter)} and ${concernsCaller(filter.namespaces)}
      and (${createdAt}::timestamptz is null
        or (f.created_at, f.freeze_id) < (${createdAt}::timestamptz, ${freezeId}::uuid))
    order by f.created_at desc, f.freeze_id desc
    limit ${filter.limit}`;
}

/**
 * Grants in force of environments that a freeze is about and that are not revoked yet, at most `limit`. Index:
 * `lease_pkey`.
 */
export async function readFrozenGrants(
  sql: Sql<'general'>,
  { namespace, name, action }: Pick<NewFreeze, 'namespace' | 'name' | 'action'>,
  limit: number,
): Promise<string[]> {
  const place =
    name === null
      ? withinNamespace(namespace)
      : fragment`l.namespace = ${namespace} ${C} and l.name = ${name} ${C}`;
  const rows = await sql.$queryRaw<{ leaseId: string }[]>`
    select l.lease_id as "leaseId"
    from lease l
    where l.face = 'environment' and ${place} and l.renewable
      and (${action}::text is null or l.tag = ${action}::text)
      and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
    limit ${limit}`;
  return rows.map(({ leaseId }) => leaseId);
}

/**
 * The freezes that a grant has overridden, from the event of its beginning; none if the audit has them already: the
 * request was repeated. Index: `lease_event_lease_id_idx`, `audit_at_idx`.
 */
export async function readOverridden(sql: Sql<'general'>, leaseId: string): Promise<string[]> {
  const rows = await sql.$queryRaw<{ freezes: string[] }[]>`
    select array(select jsonb_array_elements_text(v.detail -> 'override' -> 'freezes')) as freezes
    from lease_event v
    where v.lease_id = ${leaseId}::uuid and v.kind in ('granted', 'taken_over')
      and v.detail -> 'override' is not null
      and not exists (
        select from audit a
        where a.at >= v.at and a.action = 'environments.overrideFreeze'
          and a.resource = 'lease:' || v.lease_id::text
      )
    limit 1`;
  return rows[0]?.freezes ?? [];
}

/** Removes freezes that were over or removed before the retention time. Few rows: the table is read whole. */
export async function removeOldFreezes(
  sql: Sql<'general'>,
  retentionDays: number,
  pass: RetentionPass,
): Promise<void> {
  await removeOld(sql, pass, 'freezes', {
    old: fragment`
      select f.freeze_id from environment_freeze f
      where least(f.removed_at, f.ends_at) < clock_timestamp() - ${retentionDays}::int * interval '1 day'`,
    deletes: fragment`
      gone as (
        delete from environment_freeze f using old where f.freeze_id = old.freeze_id returning f.freeze_id
      )`,
  });
}
