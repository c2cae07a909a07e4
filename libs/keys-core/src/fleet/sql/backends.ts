import { type BackendSort, type BackendStatus, statusRank } from '../../kernel/backends.ts';
import { LeaseError } from '../../kernel/errors.ts';
import type { Count, FilterOf } from '../../kernel/face-types.ts';
import { withinLimits, withinNamespace } from '../../lists/index.ts';
import {
  boundedCount,
  decodeCursor,
  invalidCursor,
  pageOf,
  placeAfter,
} from '../../postgres/paging.ts';
import { removeOld, type RetentionPass } from '../../postgres/retention-pass.ts';
import {
  type Dated,
  type Fragment,
  fragment,
  isoDates,
  joinFragments,
  type Sql,
} from '../../postgres/sql.ts';
import type {
  BackendDetail,
  BackendStateView,
  BackendView,
  GatewayTraffic,
} from '../fleet-views.ts';

export interface BackendListInput {
  readonly droneId?: string | undefined;
  readonly status?: BackendStatus | undefined;
  /** Only backends that have not terminated. */
  readonly live?: boolean | undefined;
  readonly program?: string | undefined;
  /** With a `name` that of the key; else its children are included. */
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  /** By default by when they were started, newest first. By what they use: only those of which that is known. */
  readonly sort?: BackendSort | undefined;
  readonly direction?: 'asc' | 'desc' | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** Namespaces, children included, that the reader is limited to; null for no limit. */
export type NamespaceLimits = readonly string[] | null;

type Instants = 'createdAt' | 'statusAt' | 'lastUsedAt' | 'idleStopAt';

type BackendRow = Omit<Dated<BackendView, Instants>, 'key' | 'logFiles' | 'usage'> &
  BackendView['key'] & {
    readonly logFolder: string | null;
    readonly used: readonly [memoryBytes: number, cpus: number | null] | null;
  };

const IS_LIVE = fragment`b.status_rank < ${statusRank('terminated')}`;
const IS_USAGE_FRESH = fragment`d.usage_at > clock_timestamp() - interval '1 minute'`;

const BACKEND_COLUMNS = fragment`
  b.id as "backendId", b.status, b.reason, b.program, b.image, b.name, b.namespace, b.tag,
  b.drone_id as "droneId", b.datacenter, b.lease_id as "leaseId",
  b.fencing_token::text as "fencingToken", b.address, b.exit_code as "exitCode",
  b.lifetime_limit_seconds as "lifetimeLimitSeconds", b.idle_stop_seconds as "idleStopSeconds",
  b.last_used_at as "lastUsedAt",
  case when b.status = 'ready' and b.stop_asked_at is null
    then greatest(b.last_used_at, b.status_at) + b.idle_stop_seconds * interval '1 second'
  end as "idleStopAt", b.created_at as "createdAt",
  b.status_at as "statusAt", d.log_folder as "logFolder",
  case when ${IS_LIVE} and ${IS_USAGE_FRESH} then d.usage -> b.id end as used`;

function backendView({ name, namespace, tag, logFolder, used, ...row }: BackendRow): BackendView {
  return {
    ...isoDates(row),
    key: { name, namespace, tag },
    usage: used === null ? null : { memoryBytes: used[0], cpus: used[1] },
    // As the drone's warden names them.
    logFiles: logFolder === null ? null : `${logFolder}/${row.backendId}.*.log`,
  };
}

/** Backends, newest first. The page is cut before anything is added to its rows. */
export async function listBackends(
  sql: Sql<'general' | 'reads'>,
  input: BackendListInput,
  limits: NamespaceLimits,
): Promise<{ items: BackendView[]; nextCursor: string | null }> {
  const { sort = 'created' } = input;
  if (sort !== 'created') return listByUsage(sql, { ...input, sort }, limits);
  const direction = input.direction === 'asc' ? fragment`asc` : fragment`desc`;
  const comparison = input.direction === 'asc' ? fragment`>` : fragment`<`;
  const after = input.cursor === undefined ? undefined : placeAfter(input.cursor);
  const filters = [
    ...filtersOf(input, limits),
    ...(after === undefined
      ? []
      : [
          fragment`(b.created_at, b.id) ${comparison} (${after[0]}::timestamptz, ${after[1]}::text collate "C")`,
        ]),
  ];
  const rows = await sql.$queryRaw<BackendRow[]>`
    select ${BACKEND_COLUMNS}
    from (
      select b.* from backend b
      where ${joinFragments(filters, ' and ')}
      order by b.created_at ${direction}, b.id ${direction}
      limit ${input.limit + 1}
    ) b
    left join drone d on d.id = b.drone_id
    order by b.created_at ${direction}, b.id ${direction}`;
  return pageOf(rows.map(backendView), input.limit, (item) => [item.createdAt, item.backendId]);
}

/** Begins with what the drones report, which is of running backends: however many have ended, none of them is read. */
async function listByUsage(
  sql: Sql<'general' | 'reads'>,
  input: BackendListInput & { readonly sort: 'memory' | 'cpu' },
  limits: NamespaceLimits,
): Promise<{ items: BackendView[]; nextCursor: string | null }> {
  const isAscending = input.direction === 'asc';
  const direction = isAscending ? fragment`asc` : fragment`desc`;
  const filters = [IS_LIVE, ...filtersOf(input, limits)];
  if (input.cursor !== undefined) {
    const [place = '', id = ''] = decodeCursor(input.cursor, 2);
    if (place === '' || !Number.isFinite(Number(place))) throw invalidCursor();
    const comparison = isAscending ? fragment`>` : fragment`<`;
    filters.push(
      fragment`(u.place, b.id) ${comparison} (${Number(place)}::float8, ${id}::text collate "C")`,
    );
  }
  const rows = await sql.$queryRaw<(BackendRow & { place: number })[]>`
    select ${BACKEND_COLUMNS}, u.place
    from drone d
    cross join lateral (
      select e.key as id, coalesce((e.value ->> ${input.sort === 'memory' ? 0 : 1}::int)::float8, -1) as place
      from jsonb_each(d.usage) as e
    ) as u
    join backend b on b.id = u.id collate "C" and b.drone_id = d.id
    where ${IS_USAGE_FRESH} and ${joinFragments(filters, ' and ')}
    order by u.place ${direction}, b.id ${direction}
    limit ${input.limit + 1}`;
  const places = new Map(rows.map(({ backendId, place }) => [backendId, String(place)]));
  const views = rows.map(({ place: _, ...row }) => backendView(row));
  return pageOf(views, input.limit, ({ backendId }) => [places.get(backendId) ?? '', backendId]);
}

/** How many backends all pages have together. */
export async function countBackends(
  sql: Sql<'reads'>,
  input: FilterOf<BackendListInput>,
  limits: NamespaceLimits,
): Promise<Count> {
  return boundedCount(
    sql,
    fragment`backend b where ${joinFragments(filtersOf(input, limits), ' and ')}`,
  );
}

/** The status is asked by its rank, which `backend_drone_id_status_rank_idx` has: most backends have ended long ago. */
function filtersOf(input: FilterOf<BackendListInput>, limits: NamespaceLimits): Fragment[] {
  return [
    withinLimits(limits, fragment`b.namespace`),
    ...(input.droneId === undefined ? [] : [fragment`b.drone_id = ${input.droneId} collate "C"`]),
    ...(input.status === undefined ? [] : [fragment`b.status_rank = ${statusRank(input.status)}`]),
    ...(input.live === true ? [IS_LIVE] : []),
    ...(input.program === undefined ? [] : [fragment`b.program = ${input.program}`]),
    ...ofNamespace(input),
    ...(input.name === undefined ? [] : [fragment`b.name = ${input.name} collate "C"`]),
  ];
}

function ofNamespace({ namespace, name }: FilterOf<BackendListInput>): Fragment[] {
  if (namespace === undefined) return [];
  if (name !== undefined) return [fragment`b.namespace = ${namespace} collate "C"`];
  return [withinNamespace(namespace, fragment`b.namespace`)];
}

/** A use that was not reported again for so long is over: its gateway writes every five seconds at least. */
const GATEWAY_USE_SECONDS = 12;

/**
 * One backend. A backend outside the reader's namespaces counts as not found.
 * @throws {LeaseError} `backend.not_found`.
 */
export async function getBackend(
  sql: Sql<'reads'>,
  backendId: string,
  limits: NamespaceLimits,
): Promise<Omit<BackendDetail, 'states'>> {
  const [row] = await sql.$queryRaw<
    (BackendRow & { output: string | null; throughGateways: GatewayTraffic | null })[]
  >`
    select ${BACKEND_COLUMNS}, b.output, (
      select jsonb_build_object(
        'connections', sum(u.connections), 'users', sum(u.users),
        'requestsPerSecond', sum(u.requests_per_second)
      )
      from gateway_use u
      where u.lease_id = b.lease_id
        and u.at > clock_timestamp() - ${GATEWAY_USE_SECONDS}::int * interval '1 second'
      having count(*) > 0
    ) as "throughGateways"
    from backend b
    left join drone d on d.id = b.drone_id
    where b.id = ${backendId} collate "C" and ${withinLimits(limits, fragment`b.namespace`)}`;
  if (row === undefined) throw new LeaseError('backend.not_found');
  const { output, throughGateways, ...rest } = row;
  return { ...backendView(rest), output, throughGateways };
}

/** The states of a backend after the one with the id `afterId`, in the order they were recorded. */
export async function readBackendStates(
  sql: Sql<'reads'>,
  backendId: string,
  afterId: string,
): Promise<BackendStateView[]> {
  const rows = await sql.$queryRaw<Dated<BackendStateView, 'at'>[]>`
    select s.id::text as id, s.backend_id as "backendId", s.status, s.reason, s.address,
      s.exit_code as "exitCode", s.detail, s.at
    from backend_state s
    where s.backend_id = ${backendId} collate "C" and s.id > ${afterId}::bigint
    order by s.id`;
  return rows.map((row) => isoDates(row));
}

/** Closed actions are of no use after this; they are kept a while for people who look into a fault. */
const CLOSED_ACTION_HOURS = 24;
const FAILURES_KEPT_HOURS = 24;

/**
 * Removes what nobody needs any more: actions that were acknowledged or cancelled a day ago,
 * terminated backends with their states and what was never acknowledged of them, and the audit, after the
 * retention time. @returns how many rows of each.
 *
 * Index: `backend_action_closed_at_idx`, `backend_terminated_at_idx`, `audit_at_idx`.
 */
export async function removeOldFleetRows(
  sql: Sql<'general'>,
  retentionDays: number,
  pass: RetentionPass,
): Promise<{ actions: number; backends: number; audit: number }> {
  const retention = fragment`${retentionDays}::int * interval '1 day'`;
  const actions = await removeOld(sql, pass, 'actions', {
    old: fragment`
      select a.id
      from backend_action a
      where coalesce(a.acked_at, a.cancelled_at)
        < clock_timestamp() - ${CLOSED_ACTION_HOURS}::int * interval '1 hour'
      order by coalesce(a.acked_at, a.cancelled_at)`,
    deletes: fragment`gone as (delete from backend_action a using old where a.id = old.id returning a.id)`,
  });
  const backends = await removeOld(sql, pass, 'backends', {
    old: fragment`
      select b.id, b.namespace
      from backend b
      where b.status = 'terminated' and b.status_at < clock_timestamp() - ${retention}
      order by b.status_at`,
    deletes: fragment`
      names as (
        delete from search_name n using old
        where n.kind = 'backend' and n.namespace = old.namespace and n.name = old.id
      ),
      states as (delete from backend_state s using old where s.backend_id = old.id),
      actions as (delete from backend_action a using old where a.backend_id = old.id),
      gone as (delete from backend b using old where b.id = old.id returning b.id)`,
  });
  // Failures of a row that nobody goes on with. Index: `key_failure_failed_at_idx`.
  await removeOld(sql, pass, 'key failures', {
    old: fragment`
      select k.namespace, k.name from key_failure k
      where k.failed_at < clock_timestamp() - ${FAILURES_KEPT_HOURS}::int * interval '1 hour'
      order by k.failed_at`,
    deletes: fragment`
      gone as (
        delete from key_failure k using old
        where k.namespace = old.namespace and k.name = old.name
        returning k.name
      )`,
  });
  const audit = await removeOld(sql, pass, 'audit', {
    old: fragment`select a.id from audit a where a.at < clock_timestamp() - ${retention} order by a.at`,
    deletes: fragment`gone as (delete from audit a using old where a.id = old.id returning a.id)`,
  });
  return { actions, backends, audit };
}
