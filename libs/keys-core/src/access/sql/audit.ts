import { type AuditAction, SIGN_IN_ACTIONS } from '../../kernel/access.ts';
import type { Count, RenewalAct } from '../../kernel/face-types.ts';
import type { RecordGrantAct } from '../../grants/index.ts';
import type { Prisma } from '../../postgres/generated/client.ts';
import {
  boundedLogCount,
  decodeCursor,
  encodeCursor,
  invalidCursor,
} from '../../postgres/paging.ts';
import { readClock, type RecordSql } from '../../postgres/records.ts';
import {
  contains,
  type Dated,
  type Fragment,
  fragment,
  inLastMinutes,
  isoDates,
  joinFragments,
  onlyRow,
  type Sql,
} from '../../postgres/sql.ts';

/** What an operator did outside of leases. */
export interface AuditEntry {
  readonly actor: string;
  readonly role: string;
  readonly action: AuditAction;
  /** What it was done to, such as `drone:d1`. */
  readonly resource: string;
  readonly reason?: string | null | undefined;
  /** Where the request came from. */
  readonly source?: string | null | undefined;
  readonly detail?: Readonly<Record<string, unknown>> | undefined;
}

export interface AuditView {
  readonly id: string;
  readonly at: string;
  readonly actor: string;
  /** The name of the person who acted; null for a token, or Leasehold itself. */
  readonly actorName: string | null;
  readonly role: string;
  readonly action: string;
  readonly resource: string;
  readonly reason: string | null;
  readonly source: string | null;
  readonly detail: unknown;
}

/** Which entries are wanted. */
export interface AuditFilter {
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  /**
   * As in an entry, such as `drone:d1`; its id alone; or the name of what it concerned, alone or in its namespace as it
   * is printed: `prod`, `shop/prod`; a namespace finds what concerned all of it.
   */
  readonly resource?: string | undefined;
  /** Part of the actor, the reason or the resource, as people read it; in any case. */
  readonly text?: string | undefined;
  /** Only signing in and out, or only everything else. */
  readonly signIns?: boolean | undefined;
  /** Only what was done in the last so many minutes of the database's clock. */
  readonly windowMinutes?: number | undefined;
  /** ISO-8601, inclusive. */
  readonly from?: string | undefined;
  /** ISO-8601, exclusive. */
  readonly to?: string | undefined;
}

export interface AuditListInput extends AuditFilter {
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** Writes an entry, where possible in the transaction of the change that it records. */
export async function writeAudit({ records }: RecordSql, entry: AuditEntry): Promise<void> {
  const { actor, role, action, resource, reason = null, source = null, detail } = entry;
  await records.audit.create({
    data: {
      actor,
      role,
      action,
      resource,
      reason,
      source,
      ...(detail === undefined ? {} : { detail: detail as Prisma.InputJsonObject }),
    },
    select: { id: true },
  });
}

/** As {@link writeAudit}, by a statement: in a transaction that has no typed queries. */
export async function insertAudit(
  sql: Sql<'general' | 'transitions'>,
  entry: AuditEntry,
): Promise<void> {
  const { actor, role, action, resource, reason = null, source = null, detail = {} } = entry;
  await sql.$queryRaw`
    insert into audit (actor, role, action, resource, reason, source, detail)
    values (
      ${actor}, ${role}, ${action}, ${resource}, ${reason}, ${source},
      ${JSON.stringify(detail)}::jsonb
    )
    returning 1 as recorded`;
}

/** Who does something to a grant, and what: an entry without what the act itself finds. */
export type ActEntry = Pick<AuditEntry, 'actor' | 'role' | 'source' | 'action'>;

/**
 * What writes the entry of an act on a grant, in the transaction that has changed the grant; undefined for an act that
 * is part of a greater one, which has its own entry.
 */
export function grantRecorder(
  entry: ActEntry | undefined,
  { leaseId, reason, ...detail }: RenewalAct,
): RecordGrantAct | undefined {
  if (entry === undefined) return undefined;
  return (tx, { face, namespace, name }) =>
    writeAudit(tx, {
      ...entry,
      resource: `lease:${leaseId}`,
      reason,
      detail: { ...detail, face, namespace, name },
    });
}

/** How many ids one statement looks through, and how many statements a page may take. */
const LOOKED_THROUGH_MAX = 100_000;
const LOOKS_MAX = 10;

/**
 * The audit, newest first. A statement looks through a bounded number of entries, and a page through a
 * million, whatever the filter is: a page may then hold fewer than were asked for without being the last.
 */
export async function listAudit(
  sql: Sql<'reads'>,
  input: AuditListInput,
): Promise<{ items: AuditView[]; nextCursor: string | null }> {
  const items: AuditView[] = [];
  let before = placeOfCursor(input.cursor) ?? (await readEnd(sql));
  for (let look = 0; look < LOOKS_MAX && before > 1n; look += 1) {
    const from = before - BigInt(LOOKED_THROUGH_MAX);
    const found = await lookThrough(sql, input, { from, before }, input.limit - items.length + 1);
    const fitting = found.slice(0, input.limit - items.length);
    items.push(...fitting);
    if (fitting.length < found.length) {
      return { items, nextCursor: encodeCursor([items.at(-1)?.id ?? String(before)]) };
    }
    before = from;
  }
  return { items, nextCursor: before > 1n ? encodeCursor([String(before)]) : null };
}

/** After the newest entry. Index: the end of `audit_pkey`. */
async function readEnd(sql: Sql<'reads'>): Promise<bigint> {
  const rows = await sql.$queryRaw<{ end: string }[]>`
    select (coalesce(max(a.id), 0) + 1)::text as end from audit a`;
  return BigInt(onlyRow(rows).end);
}

/**
 * Looks through a range of entries, newest first, until there are enough. Locks nothing. Index: `audit_pkey`,
 * walked back; `audit_at_idx` for a short time. No row: none of them is wanted.
 */
async function lookThrough(
  sql: Sql<'reads'>,
  input: AuditListInput,
  range: { readonly from: bigint; readonly before: bigint },
  limit: number,
): Promise<AuditView[]> {
  const rows = await sql.$queryRaw<Dated<AuditView, 'at'>[]>`
    select v.id::text as id, v.at, v.actor,
      (select p.name from person p where p.email = v.actor) as "actorName", v.role, v.action, v.resource, v.reason, v.source, v.detail
    from audit v
    where v.id >= ${String(range.from)}::bigint and v.id < ${String(range.before)}::bigint
      and ${spanOf(input)} and ${conditionOf(input)}
    order by v.id desc
    limit ${limit}`;
  return rows.map((row) => isoDates(row));
}

/**
 * How many entries all pages have together, of the newest of their time. Locks nothing. Index: `audit_pkey`
 * walked back, or `audit_at_idx` for a time.
 */
export function countAudit(sql: Sql<'reads'>, input: AuditFilter): Promise<Count> {
  const hasTime = [input.from, input.to, input.windowMinutes].some((bound) => bound !== undefined);
  const order = hasTime ? fragment`v.at desc` : fragment`v.id desc`;
  return boundedLogCount(sql, {
    rows: fragment`select * from audit v where ${spanOf(input)} order by ${order}`,
    wanted: conditionOf(input),
  });
}

/** When they happened. */
function spanOf({ from, to, windowMinutes }: AuditFilter): Fragment {
  const conditions = [fragment`true`];
  if (from !== undefined) conditions.push(fragment`v.at >= ${from}::timestamptz`);
  if (to !== undefined) conditions.push(fragment`v.at < ${to}::timestamptz`);
  if (windowMinutes !== undefined) conditions.push(inLastMinutes(fragment`v.at`, windowMinutes));
  return joinFragments(conditions, ' and ');
}

/** What they are. */
function conditionOf(input: AuditFilter): Fragment {
  const { actor, action, resource, text, signIns } = input;
  const conditions = [fragment`true`];
  if (actor !== undefined) conditions.push(fragment`v.actor = ${actor}`);
  if (action !== undefined) conditions.push(fragment`v.action = ${action}`);
  if (signIns !== undefined) {
    conditions.push(fragment`(v.action = any(${[...SIGN_IN_ACTIONS]}::text[])) = ${signIns}`);
  }
  if (resource !== undefined) {
    conditions.push(fragment`(
      v.resource = ${resource} or split_part(v.resource, ':', 2) = ${resource}
      or v.detail ->> 'name' = ${resource}
      or search_text(v.detail ->> 'namespace', v.detail ->> 'name') = search_folded(${resource})
      or (v.detail ->> 'name' is null and v.detail ->> 'namespace' = ${resource})
    )`);
  }
  if (text !== undefined) conditions.push(contains(SEARCHED, text));
  return joinFragments(conditions, ' and ');
}

/** What a text is looked for in: of names, as they are printed. */
const SEARCHED = fragment`concat_ws(
      chr(10), v.actor, v.reason, v.resource, v.detail ->> 'email',
      coalesce(search_text(v.detail ->> 'namespace', v.detail ->> 'name'), v.detail ->> 'name')
    )`;

function placeOfCursor(cursor: string | undefined): bigint | null {
  if (cursor === undefined) return null;
  const [id = ''] = decodeCursor(cursor, 1);
  if (!/^\d{1,18}$/u.test(id)) throw invalidCursor();
  return BigInt(id);
}

// What the webhook has been told, and what it is to be told of the audit.

/**
 * An entry may be written by a statement that is still under way: it is read when it is this old. One after a gap in
 * the ids waits longer, for the transactions that began before it and still write.
 */
const SETTLED_MS = 5_000;
/** How many entries one statement looks through. */
const ENTRIES_PER_LOOK_MAX = 1_000;

/** What the webhook is told of an alarm. */
export interface WebhookAlarm {
  /** Its text as it began. */
  readonly text: string;
  /** Whether the webhook was told that it began. */
  readonly isTold: boolean;
  /** The message that it began, or once that was told that it ended: its id, and how often it has failed. */
  readonly message: { readonly id: string; readonly tries: number } | null;
}

/** How far the webhook has been told. */
export interface WebhookProgress {
  /** The last entry of the audit that was sent, or passed over. */
  readonly auditId: string;
  /** By what they are about. */
  readonly alarms: Readonly<Record<string, WebhookAlarm>>;
  /** How often the next message about the audit has failed. */
  readonly tries: number;
}

export interface WebhookState extends WebhookProgress {
  readonly nextTryAt: string | null;
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
    alarms: alarms as unknown as WebhookState['alarms'],
    tries,
    lastError,
    sentAt: sentAt?.toISOString() ?? null,
    nextTryAt: nextTryAt?.toISOString() ?? null,
    waitMs: nextTryAt === null ? 0 : Math.max(0, Number(nextTryAt) - Number(await readClock(sql))),
  };
}

/**
 * The next entry of the audit with one of these actions, and the last entry that was looked at. It looks no further
 * than the first entry that may not be settled, because one before that may not be visible yet.
 * Index: `audit_pkey`, from the cursor on.
 */
export async function nextAudit(
  sql: RecordSql,
  { after, actions }: { readonly after: string; readonly actions: readonly string[] },
): Promise<{ readonly entry: AuditView | null; readonly throughId: string }> {
  // Before the entries: what is not visible then, and is not under way either, will never be.
  const { now, writingSince } = await readWriters(sql);
  const rows = await sql.records.audit.findMany({
    where: { id: { gt: BigInt(after) } },
    orderBy: { id: 'asc' },
    take: ENTRIES_PER_LOOK_MAX,
  });
  const unsettled = rows.findIndex(({ id, at }, index) => {
    if (!isSettled(Number(now) - Number(at))) return true;
    const isAfterGap = id !== (rows[index - 1]?.id ?? BigInt(after)) + 1n;
    return isAfterGap && writingSince !== null && writingSince <= at;
  });
  const settled = unsettled === -1 ? rows : rows.slice(0, unsettled);
  const wanted = settled.find(({ action }) => actions.includes(action));
  if (wanted === undefined) return { entry: null, throughId: String(settled.at(-1)?.id ?? after) };
  const id = String(wanted.id);
  return { entry: { ...isoDates(wanted), id, actorName: null }, throughId: id };
}

/** The database's clock, and when the oldest of the transactions began that write now; null when none does. */
async function readWriters(sql: RecordSql): Promise<{ now: Date; writingSince: Date | null }> {
  return onlyRow(
    await sql.$queryRaw<{ now: Date; writingSince: Date | null }[]>`
      select clock_timestamp() as now, min(a.xact_start) as "writingSince"
      from pg_stat_activity a
      where a.datname = current_database() and a.backend_xid is not null`,
  );
}

/** One from the future was written before the clock stepped back: it does not wait until the clock is there again. */
function isSettled(ageMs: number): boolean {
  return Math.abs(ageMs) > SETTLED_MS;
}

/** What a step of the webhook has come to; what is not named stays. */
interface WebhookStep extends Partial<WebhookProgress> {
  /** For how long nothing is sent. */
  readonly waitMs: number;
  readonly lastError?: string | null;
  readonly isSent?: boolean;
}

/**
 * Records a step, if nobody else has recorded another one since: the condition of the update names the state that
 * the step began with. @returns the new state; null when the step was not recorded.
 */
export async function recordWebhookStep(
  sql: RecordSql,
  from: WebhookState,
  { waitMs, isSent = false, ...change }: WebhookStep,
): Promise<WebhookState | null> {
  const now = await readClock(sql);
  const nextTryAt = waitMs === 0 ? null : new Date(Number(now) + waitMs);
  const to = {
    ...from,
    ...change,
    waitMs,
    nextTryAt: nextTryAt?.toISOString() ?? null,
    ...(isSent ? { sentAt: now.toISOString() } : {}),
  };
  const { count } = await sql.records.webhook.updateMany({
    where: {
      auditId: BigInt(from.auditId),
      alarms: { equals: jsonOf(from) },
      tries: from.tries,
      nextTryAt: from.nextTryAt,
      sentAt: from.sentAt,
    },
    data: {
      auditId: BigInt(to.auditId),
      alarms: jsonOf(to),
      tries: to.tries,
      nextTryAt,
      lastError: to.lastError,
      sentAt: to.sentAt,
    },
  });
  return count > 0 ? to : null;
}

function jsonOf({ alarms }: WebhookProgress): Prisma.InputJsonObject {
  return alarms as unknown as Prisma.InputJsonObject;
}
