import { decodeCursor, invalidCursor, pageOf } from '../page-cursor.ts';
import type { Sql } from '../rows.ts';

/** What an operator did outside of leases. */
export interface AuditEntry {
  readonly actor: string;
  readonly role: string;
  /** The procedure, such as `drones.drain`. */
  readonly action: string;
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
  readonly resource?: string | undefined;
  /** ISO-8601, inclusive. */
  readonly from?: string | undefined;
  /** ISO-8601, exclusive. */
  readonly to?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** Writes an entry, where possible in the transaction of what it speaks of. */
export async function writeAudit(sql: Sql, entry: AuditEntry): Promise<void> {
  await sql.$queryRaw<{ id: string }[]>`
    insert into audit (actor, role, action, resource, reason, source, detail)
    values (
      ${entry.actor}, ${entry.role}, ${entry.action}, ${entry.resource}, ${entry.reason ?? null},
      ${entry.source ?? null}, ${entry.detail === undefined ? null : JSON.stringify(entry.detail)}::jsonb
    )
    returning id::text`;
}

/** The audit, newest first. */
export async function listAudit(
  sql: Sql,
  input: AuditListInput,
): Promise<{ items: AuditView[]; nextCursor: string | null }> {
  const rows = await sql.$queryRaw<(Omit<AuditView, 'at'> & { at: Date })[]>`
    select a.id::text as id, a.at, a.actor, a.role, a.action, a.resource, a.reason, a.source, a.detail
    from audit a
    where (${placeOfCursor(input.cursor)}::bigint is null or a.id < ${placeOfCursor(input.cursor)}::bigint)
      and (${input.actor ?? null}::text is null or a.actor = ${input.actor ?? null}::text)
      and (${input.action ?? null}::text is null or a.action = ${input.action ?? null}::text)
      and (${input.resource ?? null}::text is null or a.resource = ${input.resource ?? null}::text)
      and (${input.from ?? null}::timestamptz is null or a.at >= ${input.from ?? null}::timestamptz)
      and (${input.to ?? null}::timestamptz is null or a.at < ${input.to ?? null}::timestamptz)
    order by a.id desc
    limit ${input.limit + 1}`;
  const items = rows.map((row) => ({ ...row, at: row.at.toISOString() }));
  return pageOf(items, input.limit, (item) => [item.id]);
}

function placeOfCursor(cursor: string | undefined): string | null {
  if (cursor === undefined) return null;
  const [id = ''] = decodeCursor(cursor, 1);
  if (!/^\d{1,18}$/u.test(id)) throw invalidCursor();
  return id;
}
