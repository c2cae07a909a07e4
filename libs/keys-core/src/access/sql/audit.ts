import type { AuditAction } from '../../kernel/access/audit-actions.ts';
import { decodeCursor, invalidCursor, pageOf } from '../../postgres/paging/page-cursor.ts';
import {
  type Dated,
  type Fragment,
  fragment,
  isoDates,
  joinFragments,
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

export interface AuditListInput {
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  /** As in an entry, such as `drone:d1`; its id alone; or the name of the resource of a grant. */
  readonly resource?: string | undefined;
  /** Leaves out sign-ins, and what a bulk action did one by one. */
  readonly notable?: boolean | undefined;
  /** ISO-8601, inclusive. */
  readonly from?: string | undefined;
  /** ISO-8601, exclusive. */
  readonly to?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** Writes an entry, where possible in the transaction of the change that it records. */
export async function writeAudit(sql: Sql<'general'>, entry: AuditEntry): Promise<void> {
  await sql.$queryRaw<{ id: string }[]>`
    insert into audit (actor, role, action, resource, reason, source, detail)
    values (
      ${entry.actor}, ${entry.role}, ${entry.action}, ${entry.resource}, ${entry.reason ?? null},
      ${entry.source ?? null}, ${entry.detail === undefined ? null : JSON.stringify(entry.detail)}::jsonb
    )
    returning id::text`;
}

/**
 * The audit, newest first. Index: `audit_pkey`, walked back; `audit_at_idx` for a short time. A
 * filter that matches nothing reads the whole audit: few rows compared with leases.
 */
export async function listAudit(
  sql: Sql<'reads'>,
  input: AuditListInput,
): Promise<{ items: AuditView[]; nextCursor: string | null }> {
  const rows = await sql.$queryRaw<Dated<AuditView, 'at'>[]>`
    select a.id::text as id, a.at, a.actor,
      (select p.name from person p where p.email = a.actor) as "actorName", a.role, a.action, a.resource, a.reason, a.source, a.detail
    from audit a
    where ${conditionOf(input)}
    order by a.id desc
    limit ${input.limit + 1}`;
  const items = rows.map((row) => isoDates(row));
  return pageOf(items, input.limit, (item) => [item.id]);
}

function conditionOf(input: AuditListInput): Fragment {
  const { actor, action, resource, from, to } = input;
  const before = placeOfCursor(input.cursor);
  const conditions = [fragment`true`];
  if (before !== null) conditions.push(fragment`a.id < ${before}::bigint`);
  if (actor !== undefined) conditions.push(fragment`a.actor = ${actor}`);
  if (action !== undefined) conditions.push(fragment`a.action = ${action}`);
  if (resource !== undefined) {
    conditions.push(fragment`(
      a.resource = ${resource} or split_part(a.resource, ':', 2) = ${resource}
      or a.detail ->> 'name' = ${resource}
    )`);
  }
  if (input.notable === true) {
    conditions.push(fragment`a.action <> 'people.signIn' and a.detail -> 'bulkId' is null`);
  }
  if (from !== undefined) conditions.push(fragment`a.at >= ${from}::timestamptz`);
  if (to !== undefined) conditions.push(fragment`a.at < ${to}::timestamptz`);
  return joinFragments(conditions, ' and ');
}

function placeOfCursor(cursor: string | undefined): string | null {
  if (cursor === undefined) return null;
  const [id = ''] = decodeCursor(cursor, 1);
  if (!/^\d{1,18}$/u.test(id)) throw invalidCursor();
  return id;
}
