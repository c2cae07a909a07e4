import { noteLongestTtl } from './longest-ttl.ts';
import { onlyRow, type Sql } from './rows.ts';

export interface EpochCheck {
  readonly epoch: number;
  /** True when this check found the database in another life than the check before. */
  readonly isNew: boolean;
  /** For how long no new grant is made, in milliseconds; 0 when grants are made. */
  readonly holdOffMs: number;
  /** The longest TTL that is noted in the database, in milliseconds. */
  readonly longestTtlMs: number;
}

/**
 * Notices a restore or a failover with loss: the system identifier or the timeline of the database
 * differs from what was written down. Grants that the lost part of the history promised may still
 * be acted on, so new ones are held off until the longest of them has run out.
 *
 * The number of the new epoch is at least the minutes since 1970, so that two restores of one backup
 * have different numbers: cursors of the event stream carry them.
 *
 * Safe from several controllers at once: one statement judges, its row lock lets one of them see the
 * change, and the others see that it has been seen.
 */
export async function checkEpoch(sql: Sql, longestTtlMs: number): Promise<EpochCheck> {
  await noteLongestTtl(sql, longestTtlMs);
  const rows = await sql.$queryRaw<EpochCheck[]>`
    with here as materialized (
      select
        s.system_identifier::text as system_identifier,
        database_timeline() as timeline
      from pg_control_system() s
    ),
    noted as (
      insert into database_epoch as e (only_row, epoch, system_identifier, timeline, token, longest_ttl_ms)
      select true, 1, h.system_identifier, h.timeline, gen_random_uuid(), ${longestTtlMs}::int from here h
      on conflict (only_row) do update set
        epoch = greatest(e.epoch + 1, (extract(epoch from clock_timestamp()) / 60)::int),
        system_identifier = excluded.system_identifier,
        timeline = excluded.timeline,
        token = gen_random_uuid(),
        longest_ttl_ms = greatest(e.longest_ttl_ms, excluded.longest_ttl_ms),
        hold_off_until = clock_timestamp()
          + greatest(e.longest_ttl_ms, excluded.longest_ttl_ms) * interval '1 millisecond'
      where e.system_identifier <> excluded.system_identifier or e.timeline <> excluded.timeline
      returning e.epoch, e.hold_off_until, e.longest_ttl_ms
    )
    select
      coalesce(n.epoch, e.epoch) as epoch,
      n.epoch is not null and n.hold_off_until is not null as "isNew",
      greatest(
        0, coalesce(extract(epoch from coalesce(n.hold_off_until, e.hold_off_until) - clock_timestamp()), 0)
      )::float8 * 1000 as "holdOffMs",
      coalesce(n.longest_ttl_ms, e.longest_ttl_ms) as "longestTtlMs"
    from (select 1) one
    left join noted n on true
    left join database_epoch e on true`;
  return onlyRow(rows);
}
