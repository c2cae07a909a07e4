import { C, type Sql } from './rows.ts';

/** What was answered to an idempotency key: a result, or the error that it ended in. */
export type RecordedAnswer =
  | { readonly backendId: string; readonly spawned: boolean }
  | {
      readonly error: {
        readonly code: string;
        readonly message: string;
        readonly details: Record<string, unknown>;
      };
    };

/** The answer that this principal's idempotency key was given, or undefined. */
export async function readAnswer(
  sql: Sql,
  principal: string,
  idempotencyKey: string,
): Promise<RecordedAnswer | undefined> {
  const rows = await sql.$queryRaw<{ answer: RecordedAnswer }[]>`
    select answer from lease_request
    where principal = ${principal} ${C} and idempotency_key = ${idempotencyKey} ${C}`;
  return rows[0]?.answer;
}

/** Records an answer that came with no grant. The first answer stays. */
export async function recordAnswer(
  sql: Sql,
  request: { readonly principal: string; readonly idempotencyKey: string },
  answer: RecordedAnswer,
): Promise<void> {
  await sql.$queryRaw`
    insert into lease_request (principal, idempotency_key, answer)
    values (${request.principal}, ${request.idempotencyKey}, ${JSON.stringify(answer)}::jsonb)
    on conflict (principal, idempotency_key) do nothing
    returning principal`;
}

/** Drops answers older than a day, at most `limit`. @returns how many. */
export async function dropOldAnswers(sql: Sql, limit: number): Promise<number> {
  const rows = await sql.$queryRaw<{ principal: string }[]>`
    delete from lease_request r
    using (
      select principal, idempotency_key from lease_request
      where created_at < clock_timestamp() - interval '24 hours'
      limit ${limit}
    ) old
    where r.principal = old.principal and r.idempotency_key = old.idempotency_key
    returning r.principal`;
  return rows.length;
}
