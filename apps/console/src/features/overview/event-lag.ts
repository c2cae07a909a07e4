/** What holds the events back, and what ends it. Pure. */
import type { EventLag } from '@leasehold/api/contract';

/** Transactions of Leasehold end within a second or two; from this lag on somebody should look. */
export const EVENTS_LATE_MS = 5_000;

type Culprit = NonNullable<EventLag['culprit']>;

interface Remedy {
  readonly text: string;
  /** For psql. */
  readonly sql: string;
}

/** How an operator ends the transaction. */
export function remedyOf({ pid, preparedAs, database }: Culprit): Remedy {
  if (preparedAs !== null) {
    return {
      text: `Ask its owner whether it is to be committed. Otherwise undo it, in the database ${database ?? ''}:`,
      sql: `rollback prepared ${quoted(preparedAs)};`,
    };
  }
  if (pid === null) {
    return {
      text: 'Leasehold’s database user may not see which one. As a user that may (pg_monitor), find the oldest:',
      sql: 'select pid, datname, application_name, state, xact_start, query_start from pg_stat_activity where backend_xid is not null order by xact_start limit 1;',
    };
  }
  return {
    text: 'See what it does, and end it unless it must continue. Its work is rolled back:',
    sql: `select query from pg_stat_activity where pid = ${String(pid)};\nselect pg_terminate_backend(${String(pid)});`,
  };
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
