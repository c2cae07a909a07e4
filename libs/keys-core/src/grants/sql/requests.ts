/** The records of idempotency keys, on every face: see `kernel/recorded-request.ts`. */
import {
  assertSameRequest,
  type IdempotentRequest,
  type RecordedRequest,
  recordedResource,
} from '../../kernel/recorded-request.ts';
import { C, type Sql } from '../../postgres/sql.ts';

/** The sender and the key, by which a record is found. */
export interface RequestKey {
  readonly principal: string;
  readonly idempotencyKey: string;
}

/** A request that was sent with an idempotency key. */
export type KeyedRequest = RequestKey & IdempotentRequest;

/**
 * The record of a request, or undefined when its key has not been used.
 * @throws {LeaseError} `request.idempotency_reused`.
 */
export async function readRequest(
  sql: Sql<'general'>,
  request: KeyedRequest,
): Promise<RecordedRequest | undefined> {
  const [record] = await sql.$queryRaw<RecordedRequest[]>`
    select lease_id as "leaseId", answer, resource, fingerprint from lease_request
    where principal = ${request.principal} ${C}
      and idempotency_key = ${request.idempotencyKey} ${C}`;
  if (record !== undefined) assertSameRequest(record, request);
  return record;
}

/** An answer without a grant. */
export interface RequestAnswer {
  readonly request: KeyedRequest;
  readonly answer: object;
}

/**
 * Records answers, each under its key; the first record of a key stays. No key may occur twice.
 * @returns for each, in order, whether it was recorded now.
 */
export async function recordAnswers(
  sql: Sql<'general' | 'transitions'>,
  answers: readonly RequestAnswer[],
): Promise<boolean[]> {
  const requests = answers.map(({ request }) => request);
  const rows = await sql.$queryRaw<RequestKey[]>`
    insert into lease_request (principal, idempotency_key, answer, resource, fingerprint)
    select r.principal, r.idempotency_key, r.answer::jsonb, r.resource, r.fingerprint
    from unnest(
      ${requests.map((request) => request.principal)}::text[],
      ${requests.map((request) => request.idempotencyKey)}::text[],
      ${answers.map(({ answer }) => JSON.stringify(answer))}::text[],
      ${requests.map(recordedResource)}::text[],
      ${requests.map((request) => request.fingerprint)}::text[]
    ) as r (principal, idempotency_key, answer, resource, fingerprint)
    order by r.principal ${C}, r.idempotency_key ${C}
    on conflict (principal, idempotency_key) do nothing
    returning principal, idempotency_key as "idempotencyKey"`;
  const recorded = new Set(rows.map(keyText));
  return requests.map((request) => recorded.has(keyText(request)));
}

/** A different text for each key: a principal contains no NUL. */
export function keyText({ principal, idempotencyKey }: RequestKey): string {
  return `${principal}\0${idempotencyKey}`;
}

/** Drops records older than a day, at most `limit`. @returns how many. */
export async function dropOldRequests(sql: Sql<'general'>, limit: number): Promise<number> {
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
