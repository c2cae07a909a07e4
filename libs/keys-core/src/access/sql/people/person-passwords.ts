import { randomUUID } from 'node:crypto';
import type { Sql } from '../../../postgres/sql.ts';

/**
 * Sets the password of a person, as a hash of `hashPassword`.
 * Index: `person_account_provider_id_account_id_key`. Always one row.
 */
export async function setPassword(
  sql: Sql<'general'>,
  personId: string,
  passwordHash: string,
): Promise<void> {
  await sql.$queryRaw<{ id: string }[]>`
    insert into person_account (id, person_id, provider_id, account_id, password)
    values (${randomUUID()}::uuid, ${personId}::uuid, 'credential', ${personId}, ${passwordHash})
    on conflict (provider_id, account_id) do update
    set password = excluded.password, updated_at = clock_timestamp()
    returning id::text`;
}

/**
 * Replaces the password of a person, if it is still the one that was checked: only one of two changes
 * at once that both knew it counts. Locks the account's row; index as above. Zero rows: it was changed.
 */
export async function replacePassword(
  sql: Sql<'general'>,
  personId: string,
  change: { readonly knownHash: string; readonly newHash: string },
): Promise<boolean> {
  const rows = await sql.$queryRaw<{ id: string }[]>`
    update person_account a
    set password = ${change.newHash}, updated_at = clock_timestamp()
    where a.provider_id = 'credential' and a.account_id = ${personId}
      and a.password = ${change.knownHash}
    returning a.id::text`;
  return rows.length > 0;
}

/** The hash of a person's password; undefined when they sign in another way. */
export async function readPasswordHash(
  sql: Sql<'general'>,
  personId: string,
): Promise<string | undefined> {
  const rows = await sql.$queryRaw<{ password: string | null }[]>`
    select a.password
    from person_account a
    where a.provider_id = 'credential' and a.account_id = ${personId}`;
  return rows[0]?.password ?? undefined;
}
