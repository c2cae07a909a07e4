/** What the webhook has been told, and what it is to be told of the audit. */
import type { AuditView } from './audit.ts';
import { type Dated, isoDates, onlyRow, type Sql } from '../../postgres/sql.ts';

/** An entry may be written by a statement that is still under way: it is read when it is this old. */
const SETTLED_S = 5;
/** How many entries one statement looks through. */
const LOOKED_THROUGH_MAX = 1_000;

export interface WebhookState {
  /** The last entry of the audit that was sent, or passed over. */
  readonly auditId: string;
  /** The texts of the alarms that it was told of, by what they are about. */
  readonly alarms: Readonly<Record<string, string>>;
  /** How often the next message has failed. */
  readonly tries: number;
  /** For how long nothing is sent. */
  readonly waitMs: number;
  readonly lastError: string | null;
  readonly sentAt: string | null;
}

/** The state of the webhook; the first time it begins with what comes next. Index: the primary keys. */
export async function openWebhook(sql: Sql<'general'>): Promise<WebhookState> {
  await sql.$queryRaw<{ id: string }[]>`
    insert into webhook (audit_id, alarms)
    select coalesce((select max(a.id) from audit a), 0), '{}'
    on conflict do nothing
    returning audit_id::text as id`;
  const state = await readWebhook(sql);
  if (state === null) throw new Error('the row of the webhook was just written');
  return state;
}

/** The state of the webhook; null if none was ever configured. Index: the primary key. */
export async function readWebhook(sql: Sql<'general'>): Promise<WebhookState | null> {
  const [row] = await sql.$queryRaw<Dated<WebhookState, 'sentAt'>[]>`
    select w.audit_id::text as "auditId", w.alarms, w.tries, w.last_error as "lastError",
      greatest(0, coalesce(extract(epoch from w.next_try_at - clock_timestamp()) * 1000, 0))::float8 as "waitMs",
      w.sent_at as "sentAt"
    from webhook w`;
  return row === undefined ? null : isoDates(row);
}

/**
 * The next entry of the audit with one of these actions, and the last entry that was looked at: null for none.
 * Index: `audit_pkey`, from the cursor on.
 */
export async function nextAudit(
  sql: Sql<'general'>,
  { after, actions }: { readonly after: string; readonly actions: readonly string[] },
): Promise<{ readonly entry: AuditView | null; readonly throughId: string }> {
  const rows = await sql.$queryRaw<Dated<AuditView, 'at'>[]>`
    select v.id::text as id, v.at, v.actor, null as "actorName", v.role, v.action, v.resource, v.reason,
      v.source, v.detail
    from audit v
    where v.id > ${after}::bigint
      and v.at < clock_timestamp() - ${SETTLED_S}::int * interval '1 second'
    order by v.id
    limit ${LOOKED_THROUGH_MAX}`;
  const wanted = rows.find(({ action }) => actions.includes(action));
  if (wanted === undefined) return { entry: null, throughId: rows.at(-1)?.id ?? after };
  return { entry: isoDates(wanted), throughId: wanted.id };
}

/** What a round of the webhook has come to. */
export interface WebhookStep {
  readonly auditId: string;
  readonly alarms: Readonly<Record<string, string>>;
  /** Null after a message that arrived. */
  readonly failure: {
    readonly tries: number;
    readonly error: string;
    readonly waitMs: number;
  } | null;
  readonly isSent: boolean;
}

/**
 * Records a step, if nobody else has recorded another one since. **Locks** the row. **Atomic because** the condition
 * names the state that the step began with. @returns whether it was recorded.
 */
export async function recordWebhookStep(
  sql: Sql<'general'>,
  from: WebhookState,
  { auditId, alarms, failure, isSent }: WebhookStep,
): Promise<boolean> {
  const rows = await sql.$queryRaw<{ isRecorded: boolean }[]>`
    with step as (
      update webhook
      set audit_id = ${auditId}::bigint, alarms = ${JSON.stringify(alarms)}::jsonb,
        tries = ${failure?.tries ?? 0}::int,
        next_try_at = clock_timestamp() + ${failure?.waitMs ?? null}::float8 * interval '1 millisecond',
        last_error = case when ${isSent}::boolean then null else coalesce(${failure?.error ?? null}, last_error) end,
        sent_at = case when ${isSent}::boolean then clock_timestamp() else sent_at end
      where audit_id = ${from.auditId}::bigint and alarms = ${JSON.stringify(from.alarms)}::jsonb
        and tries = ${from.tries}::int
      returning audit_id
    )
    select exists (select from step) as "isRecorded"`;
  return onlyRow(rows).isRecorded;
}
