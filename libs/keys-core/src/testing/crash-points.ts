/** Statements that die halfway: at one of the rows that they write, or as they are committed. */
import { onTestFinished } from 'vitest';
import { fragment } from '../postgres/sql.ts';
import type { Kernel } from './kernel-fixture.ts';

/** `skipped`: a row of a lease is passed over, as one that another statement has changed meanwhile. */
export type Crash = 'error' | 'connection' | 'skipped';

export interface CrashPoints {
  /** Lets the `at`-th write of `work` fail, from 1. @returns undefined when it has failed by that. */
  during<T>(at: number, how: Crash, work: () => Promise<T>): Promise<T | undefined>;
}

/**
 * The advisory lock of a statement that dies. Its caller has the error before the server has ended the transaction, and a
 * statement that skips locked rows would pass over them: so the next death is planned under the same lock.
 */
const DEATH = fragment`pg_advisory_xact_lock(1)`;

/** Adds crash points to a database that no other test uses. */
export async function addCrashPoints({ store }: Pick<Kernel, 'store'>): Promise<CrashPoints> {
  const sql = store.general;
  await sql.$executeRaw`create sequence crash_count`;
  await sql.$executeRaw`create table crash as select 0 as at, 'error' as how`;
  await sql.$executeRaw`
    create function crash() returns trigger language plpgsql as $$
    declare planned crash;
    begin
      select * into planned from crash;
      if planned.at > 0 and nextval('crash_count') = planned.at then
        if planned.how = 'skipped' and tg_table_name = 'lease' and tg_op = 'INSERT' then
          return null;
        elsif planned.how <> 'skipped' then
          perform ${DEATH};
          if planned.how = 'error' then
            raise exception 'crash point';
          end if;
          perform pg_terminate_backend(pg_backend_pid());
          perform pg_sleep(60);
        end if;
      end if;
      return case tg_op when 'DELETE' then old else new end;
    end $$`;
  await sql.$executeRaw`
    do $$
    declare name text;
    begin
      foreach name in array array['lease', 'lease_event', 'lease_request', 'lease_waiter', 'lease_reap'] loop
        execute format('create trigger crash before insert or update or delete on %I '
          'for each row execute function crash()', name);
        execute format('create constraint trigger crash_at_commit after insert or update or delete on %I '
          'deferrable initially deferred for each row execute function crash()', name);
      end loop;
    end $$`;
  const plan = (at: number, how: Crash): Promise<unknown> =>
    sql.$queryRaw`
      with death as materialized (select ${DEATH}::text as awaited),
      planned as (update crash set at = ${at}::int, how = ${how} returning at)
      select setval('crash_count', 1, false)::text, at, awaited from planned, death`;
  onTestFinished(() => plan(0, 'error').then(() => undefined));
  return {
    async during(at, how, work) {
      await plan(at, how);
      try {
        return await work();
      } catch (error) {
        if (how !== 'connection' && !isPlanned(error)) throw error;
        return undefined;
      } finally {
        await plan(0, 'error');
      }
    },
  };
}

function isPlanned(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause.message.includes('crash point')) return true;
  }
  return false;
}
