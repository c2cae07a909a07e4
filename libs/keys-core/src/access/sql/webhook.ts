/** What the webhook has been told, and what it is to be told of the audit. */
import type { AuditView } from './audit.ts';
import { readClock, type RecordSql } from '../../postgres/records.ts';
import { isoDates } from '../../postgres/sql.ts';

/** An entry may be written by a statement that is still under way: it is read when it is this old. */
const SETTLED_MS = 5_000;
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
export async function openWebhook(sql: RecordSql): Promise<WebhookState> {
  const { audit, webhook } = sql.records;
  const { _max: last } = await audit.aggregate({ _max: { id: true } });
  await webhook.createMany({ data: { auditId: last.id ?? 0n, alarms: {} }, skipDuplicates: true });
  const state = await readWebhook(sql);
  if (state === null) throw new Error('the row of the webhook was just written');
  return state;
}

/** The state of the webhook; null if none was ever configured. Index: the primary key. */
export async function readWebhook(sql: RecordSql): Promise<WebhookState | null> {
  const row = await sql.records.webhook.findFirst();
  if (row === null) return null;
  const { auditId, alarms, tries, nextTryAt, lastError, sentAt } = row;
  return {
    auditId: String(auditId),
    alarms: alarms as WebhookState['alarms'],
    ...{ tries, lastError, sentAt: sentAt?.toISOString() ?? null },
    waitMs: nextTryAt === null ? 0 : Math.max(0, Number(nextTryAt) - Number(await readClock(sql))),
  };
}

/**
 * The next entry of the audit with one of these actions, and the last entry that was looked at: null for none.
 * Index: `audit_pkey`, from the cursor on.
 */
export async function nextAudit(
  sql: RecordSql,
  { after, actions }: { readonly after: string; readonly actions: readonly string[] },
): Promise<{ readonly entry: AuditView | null; readonly throughId: string }> {
  const settledAt = new Date(Number(await readClock(sql)) - SETTLED_MS);
  const rows = await sql.records.audit.findMany({
    where: { id: { gt: BigInt(after) }, at: { lt: settledAt } },
    orderBy: { id: 'asc' },
    take: LOOKED_THROUGH_MAX,
  });
  const wanted = rows.find(({ action }) => actions.includes(action));
  if (wanted === undefined) return { entry: null, throughId: String(rows.at(-1)?.id ?? after) };
  const id = String(wanted.id);
  return { entry: { ...isoDates(wanted), id, actorName: null }, throughId: id };
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
 * Records a step, if nobody else has recorded another one since: the condition of the update names the state that
 * the step began with. @returns whether it was recorded.
 */
export async function recordWebhookStep(
  sql: RecordSql,
  from: WebhookState,
  { auditId, alarms, failure, isSent }: WebhookStep,
): Promise<boolean> {
  const now = await readClock(sql);
  const { count } = await sql.records.webhook.updateMany({
    where: { auditId: BigInt(from.auditId), alarms: { equals: from.alarms }, tries: from.tries },
    data: {
      auditId: BigInt(auditId),
      ...{ alarms, tries: failure?.tries ?? 0 },
      nextTryAt: failure === null ? null : new Date(Number(now) + failure.waitMs),
      ...(failure === null ? {} : { lastError: failure.error }),
      ...(isSent ? { lastError: null, sentAt: now } : {}),
    },
  });
  return count > 0;
}
