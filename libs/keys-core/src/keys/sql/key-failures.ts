/**
 * Backends of one key that fail one after another: the third failure within ten minutes delays the next start by a
 * second, each further one twice as long, up to a minute. A backend that was ready for a minute, or that ends without a
 * failure, starts the count again. The idea is Kubernetes' back-off of crash loops.
 */
import type { BackendEnd, TerminationReason } from '../../kernel/backends.ts';
import type { Named } from '../../kernel/resource.ts';
import { type Fragment, fragment, onlyRow, type Sql } from '../../postgres/sql.ts';

/** So many failures in a row delay nothing. */
const FREE_FAILURES = 2;
/** A failure that is older than this is not part of the row. */
const ROW_MINUTES = 10;
/** What `readKeyStates` takes for the longest, too. */
const DELAY_S_MAX = 60;

/** What a key's newest backends have come to. Instants are milliseconds of the database's clock. */
export interface KeyFailures {
  readonly failures: number;
  readonly since: number;
  readonly failedAt: number;
  /** The last one that failed. */
  readonly backendId: string;
  readonly reason: TerminationReason | null;
  readonly exitCode: number | null;
  /** No backend is started before this. */
  readonly startAt: number;
}

interface EndedBackend extends Pick<BackendEnd, 'reason' | 'exitCode'> {
  readonly hasFailed: boolean;
  /** It was ready for long, so its failure is the first of a row. */
  readonly lasted: boolean;
}

/**
 * A part of the statement that records the end of a backend: counts a failure, or forgets those before. From the third in
 * a row on it is an event.
 */
export function noteEnd(
  backendId: string,
  { hasFailed, lasted, reason, exitCode }: EndedBackend,
): Fragment {
  if (!hasFailed) {
    return fragment`
    forgotten as (
      -- Neither by a report that is repeated, nor by the late one of a backend from before the failures.
      delete from key_failure k using backend b
      where b.id = ${backendId} and k.namespace = b.namespace and k.name = b.name
        and exists (select from moved)
        and not exists (
          select from backend f where f.id = k.backend_id and f.fencing_token > b.fencing_token
        )
    )`;
  }
  const isFirst = fragment`(${lasted}::boolean
    or k.failed_at < clock_timestamp() - ${ROW_MINUTES}::int * interval '1 minute')`;
  return fragment`
    failed as (
      insert into key_failure as k (namespace, name, failures, since, failed_at, backend_id, start_at)
      select b.namespace, b.name, 1, clock_timestamp(), clock_timestamp(), b.id, clock_timestamp()
      from backend b where b.id = ${backendId} and exists (select from moved)
      on conflict (namespace, name) do update
      set failures = case when ${isFirst} then 1 else k.failures + 1 end,
        since = case when ${isFirst} then excluded.since else k.since end,
        failed_at = excluded.failed_at,
        backend_id = excluded.backend_id,
        start_at = case
          when ${isFirst} or k.failures < ${FREE_FAILURES} then excluded.start_at
          else excluded.start_at + interval '1 second'
            * least(${DELAY_S_MAX}, 2 ^ least(k.failures - ${FREE_FAILURES}, 10))
        end
      returning k.failures, k.since, k.failed_at, k.start_at
    ),
    looped as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select 'key', b.namespace, b.name, b.lease_id, b.fencing_token, 'crash_loop',
        'drone:' || b.drone_id,
        jsonb_strip_nulls(jsonb_build_object(
          'failures', f.failures, 'since', f.since, 'backendId', b.id,
          'reason', ${reason}::text, 'exitCode', ${exitCode}::int,
          'delayMs', round(extract(epoch from f.start_at - f.failed_at) * 1000)
        ))
      from failed f, backend b
      where b.id = ${backendId} and f.failures > ${FREE_FAILURES}
    )`;
}

/** The failures of a key; undefined without any. Index: the primary keys. */
export async function readKeyFailures(
  sql: Sql<'general' | 'reads'>,
  { namespace, name }: Named,
): Promise<KeyFailures | undefined> {
  const [row] = await sql.$queryRaw<KeyFailures[]>`
    select k.failures, k.backend_id as "backendId", b.reason, b.exit_code as "exitCode",
      date_part('epoch', k.since) * 1000 as since,
      date_part('epoch', k.failed_at) * 1000 as "failedAt",
      date_part('epoch', k.start_at) * 1000 as "startAt"
    from key_failure k
    left join backend b on b.id = k.backend_id
    where k.namespace = ${namespace} and k.name = ${name}`;
  return row;
}

/** Keys whose starts are delayed because their backends fail one after another. */
export interface CrashLoops {
  readonly count: number;
  /** When the first failure of the oldest was, as epoch milliseconds; null without any. */
  readonly since: number | null;
}

/** Counts the keys that fail again and again now. Index: `key_failure_failed_at_idx`, `lease_pkey`, `backend_lease_id_key`. */
export async function countCrashLoops(sql: Sql<'guests'>): Promise<CrashLoops> {
  const rows = await sql.$queryRaw<CrashLoops[]>`
    select count(*)::int as count, min(extract(epoch from k.since)::float8 * 1000) as since
    from key_failure k
    where k.failed_at > clock_timestamp() - ${ROW_MINUTES}::int * interval '1 minute'
      and k.failures > ${FREE_FAILURES}
      and not exists (
        select from lease l
        join backend b on b.lease_id = l.lease_id
        where l.face = 'key' and l.namespace = k.namespace and l.name = k.name
          and b.status = 'ready' and b.status_at < clock_timestamp() - interval '1 minute'
      )`;
  return onlyRow(rows);
}

/** Forgets the failures of a key: it may be started at once. @returns whether there were any. */
export async function resetKeyFailures(
  sql: Sql<'general'>,
  { namespace, name }: Named,
): Promise<boolean> {
  const rows = await sql.$queryRaw<{ failures: number }[]>`
    delete from key_failure where namespace = ${namespace} and name = ${name} returning failures`;
  return rows.length > 0;
}
