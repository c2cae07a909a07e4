import { LeaseError } from '../../kernel/errors/index.ts';
import type { BackendStatus } from '../../kernel/fleet/backend-state.ts';
import type { Count, FilterOf } from '../../kernel/face-types.ts';
import { withinLimits } from '../../lists/index.ts';
import { boundedCount } from '../../postgres/paging/bounded-count.ts';
import { pageOf, placeAfter } from '../../postgres/paging/page-cursor.ts';
import {
  type Dated,
  type Fragment,
  fragment,
  isoDates,
  joinFragments,
  type Sql,
} from '../../postgres/sql.ts';
import type { BackendDetail, BackendStateView, BackendView } from '../fleet-views.ts';

export interface BackendListInput {
  readonly droneId?: string | undefined;
  readonly status?: BackendStatus | undefined;
  /** Only backends that have not terminated. */
  readonly live?: boolean | undefined;
  readonly program?: string | undefined;
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** Namespaces, children included, that the reader is limited to; null for no limit. */
export type NamespaceLimits = readonly string[] | null;

type BackendRow = Omit<Dated<BackendView, 'createdAt' | 'statusAt'>, 'key' | 'logFiles'> &
  BackendView['key'] & { readonly logFolder: string | null };

const BACKEND_COLUMNS = fragment`
  b.id as "backendId", b.status, b.reason, b.program, b.image, b.name, b.namespace, b.tag,
  b.drone_id as "droneId", b.datacenter, b.lease_id as "leaseId",
  b.fencing_token::text as "fencingToken", b.address, b.exit_code as "exitCode",
  b.lifetime_limit_seconds as "lifetimeLimitSeconds", b.created_at as "createdAt",
  b.status_at as "statusAt", d.log_folder as "logFolder"`;

function backendView({ name, namespace, tag, logFolder, ...row }: BackendRow): BackendView {
  return {
    ...isoDates(row),
    key: { name, namespace, tag },
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
  const after = input.cursor === undefined ? undefined : placeAfter(input.cursor);
  const filters = [
    ...filtersOf(input, limits),
    ...(after === undefined
      ? []
      : [
          fragment`(b.created_at, b.id) < (${after[0]}::timestamptz, ${after[1]}::text collate "C")`,
        ]),
  ];
  const rows = await sql.$queryRaw<BackendRow[]>`
    select ${BACKEND_COLUMNS}
    from (
      select b.* from backend b
      where ${joinFragments(filters, ' and ')}
      order by b.created_at desc, b.id desc
      limit ${input.limit + 1}
    ) b
    left join drone d on d.id = b.drone_id
    order by b.created_at desc, b.id desc`;
  return pageOf(rows.map(backendView), input.limit, (item) => [item.createdAt, item.backendId]);
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

function filtersOf(input: FilterOf<BackendListInput>, limits: NamespaceLimits): Fragment[] {
  return [
    withinLimits(limits, fragment`b.namespace`),
    ...(input.droneId === undefined ? [] : [fragment`b.drone_id = ${input.droneId} collate "C"`]),
    ...(input.status === undefined ? [] : [fragment`b.status = ${input.status}`]),
    ...(input.live === true ? [fragment`b.status <> 'terminated'`] : []),
    ...(input.program === undefined ? [] : [fragment`b.program = ${input.program}`]),
    ...(input.namespace === undefined
      ? []
      : [fragment`b.namespace = ${input.namespace} collate "C"`]),
    ...(input.name === undefined ? [] : [fragment`b.name = ${input.name} collate "C"`]),
  ];
}

/**
 * One backend. A backend outside the reader's namespaces counts as not found.
 * @throws {LeaseError} `backend.not_found`.
 */
export async function getBackend(
  sql: Sql<'reads'>,
  backendId: string,
  limits: NamespaceLimits,
): Promise<Omit<BackendDetail, 'states'>> {
  const [row] = await sql.$queryRaw<(BackendRow & { output: string | null })[]>`
    select ${BACKEND_COLUMNS}, b.output
    from backend b
    left join drone d on d.id = b.drone_id
    where b.id = ${backendId} collate "C" and ${withinLimits(limits, fragment`b.namespace`)}`;
  if (row === undefined) throw new LeaseError('backend.not_found');
  const { output, ...rest } = row;
  return { ...backendView(rest), output };
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
