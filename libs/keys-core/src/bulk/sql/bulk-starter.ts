import { BULK_RUNNER_MS } from './bulk-requests.ts';
import { fragment, type Fragment } from '../../postgres/sql.ts';

/** Why a bulk action is not carried out any further, as the audit has it. */
const WHY_ENDED = 'The person who started it may not do this any more.';

/**
 * Two parts of a statement that has locked a bulk action as `found (id, principal)`: the claim of
 * `runner` lasts longer, or the bulk action is aborted, with its audit entry, because its starter is
 * disabled, has another role, or came with a token that is not in force. What became of it is `kept`.
 *
 * Indexes: the primary keys of `person` and `api_token`. A principal that is neither is nobody's.
 */
export function judgedAndKept(runner: string): Fragment {
  return fragment`
    judged as materialized (
      select f.id, case
          when p.id is null and t.id is null then 'unknown'
          when p.disabled_at is not null then 'disabled'
          when t.revoked_at is not null then 'revoked'
          when t.expires_at <= clock_timestamp() then 'expired'
          when coalesce(p.role, t.role) not in ('operator', 'admin') then 'role'
          when t.namespaces <> '{}' then 'limited'
        end as cause
      from found f
      left join person p on p.id = case
        when f.principal ~ '^person:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        then substr(f.principal, 8)::uuid end
      left join api_token t on t.id = case
        when f.principal ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        then f.principal::uuid end
    ),
    kept as (
      update bulk b
      set state = case when j.cause is null then b.state else 'aborted' end,
        ended_at = case when j.cause is not null then clock_timestamp() end,
        runner = case when j.cause is null then ${runner}::uuid else b.runner end,
        runner_until = case when j.cause is null
          then clock_timestamp() + ${BULK_RUNNER_MS} * interval '1 millisecond'
          else b.runner_until end
      from judged j
      where b.id = j.id
      returning b.*, j.cause
    ),
    audited as (
      insert into audit (actor, role, action, resource, reason, detail)
      select 'controller', 'none', 'bulk.abort', 'bulk:' || k.id, ${WHY_ENDED},
        jsonb_build_object('done', k.done_count, 'total', k.total, 'startedBy', k.actor,
          'cause', k.cause)
      from kept k
      where k.cause is not null
    )`;
}
