/**
 * Backends of one key that fail one after another: the third failure within ten minutes delays the next start by a
 * second, each further one twice as long, up to a minute. A backend that was ready for a minute, or that ends without a
 * failure, starts the count again. The idea is Kubernetes' back-off of crash loops.
 */
import type { Named } from '../../kernel/resource/resource.ts';
import { fragment, type Fragment, type Sql } from '../../postgres/sql.ts';

/** So many failures in a row delay nothing. */
const FREE_FAILURES = 2;
/** A failure that is older than this is not part of the row. */
const ROW_MINUTES = 10;
const DELAY_S_MAX = 60;

/** What a key's newest backends have come to. Instants are milliseconds of the database's clock. */
export interface KeyFailures {
  readonly failures: number;
  readonly since: number;
  readonly failedAt: number;
  /** The last one that failed. */
  readonly backendId: string;
  /** No backend is started before this. */
  readonly startAt: number;
}

/**
 * A part of the statement that records the end of a backend: counts a failure, or forgets those before. `lasted`: it was
 * ready for long, so its failure is the first of a row.
 */
export function noteEnd(
  backendId: string,
  { hasFailed, lasted }: { readonly hasFailed: boolean; readonly lasted: boolean },
): Fragment {
  if (!hasFailed) {
    return fragment`
    forgotten as (
      delete from key_failure k using backend b
      where b.id = ${backendId} and k.namespace = b.namespace and k.name = b.name
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
    )`;
}

/** The failures of a key; undefined without any. Index: the primary key. */
export async function readKeyFailures(
  sql: Sql<'general' | 'reads'>,
  { namespace, name }: Named,
): Promise<KeyFailures | undefined> {
  const [row] = await sql.$queryRaw<KeyFailures[]>`
    select failures, backend_id as "backendId",
      date_part('epoch', since) * 1000 as since,
      date_part('epoch', failed_at) * 1000 as "failedAt",
      date_part('epoch', start_at) * 1000 as "startAt"
    from key_failure
    where namespace = ${namespace} and name = ${name}`;
  return row;
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
