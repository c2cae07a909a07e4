import { LeaseError } from '../../../kernel/errors/index.ts';
import type { OrderedRole } from '../../../kernel/access/roles.ts';
import { decodeCursor, invalidCursor, pageOf } from '../../../postgres/paging/page-cursor.ts';
import { isPageInstant } from '../../../postgres/paging/page-instant.ts';
import type { Sql } from '../../../postgres/rows.ts';
import { SESSION_IDLE_DAYS } from './person-sessions.ts';
import { SIGN_IN_METHODS, type SignInMethod } from '../sign-in/sign-in-methods.ts';

/** A person's row, as administrators see it. */
export interface PersonRow {
  readonly personId: string;
  readonly email: string;
  readonly name: string;
  readonly role: OrderedRole;
  readonly status: 'invited' | 'active' | 'disabled';
  readonly signInMethods: SignInMethod[];
  readonly lockedUntil: string | null;
  readonly createdAt: string;
  readonly lastSignInAt: string | null;
  readonly sessionCount: number;
}

type RawPerson = Omit<PersonRow, 'lockedUntil' | 'createdAt' | 'lastSignInAt'> & {
  readonly lockedUntil: Date | null;
  readonly createdAt: Date;
  readonly lastSignInAt: Date | null;
};

function personRow(row: RawPerson): PersonRow {
  return {
    ...row,
    lockedUntil: row.lockedUntil?.toISOString() ?? null,
    createdAt: row.createdAt.toISOString(),
    lastSignInAt: row.lastSignInAt?.toISOString() ?? null,
  };
}

const ID_FORM = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u;

function placeOf(cursor: string): [createdAt: string, id: string] {
  const [createdAt = '', id = ''] = decodeCursor(cursor, 2);
  if (!isPageInstant(createdAt) || !ID_FORM.test(id)) throw invalidCursor();
  return [createdAt, id];
}

/**
 * People, newest first, or one of them. Indexes: `person_created_at_idx`; for each person on the page
 * `person_account_person_id_idx`, `person_session_person_id_idx` and the key of `sign_in_failure`.
 */
async function readPeople(
  sql: Sql<'general'>,
  input: {
    readonly personId: string | null;
    readonly after: readonly [string, string] | null;
    readonly limit: number;
  },
): Promise<PersonRow[]> {
  const [afterAt, afterId] = input.after ?? [null, null];
  const rows = await sql.$queryRaw<RawPerson[]>`
    select p.id::text as "personId", p.email, p.name, p.role,
      case when p.disabled_at is not null then 'disabled'
        when p.joined_at is null then 'invited'
        else 'active' end as status,
      ${SIGN_IN_METHODS} as "signInMethods",
      (
        select max(f.locked_until)
        from sign_in_failure f
        where f.email_hash = encode(sha256(convert_to(p.email, 'UTF8')), 'hex') collate "C"
          and clock_timestamp() < f.locked_until
      ) as "lockedUntil",
      p.created_at as "createdAt", p.last_sign_in_at as "lastSignInAt",
      (
        select count(*)::int
        from person_session s
        where s.person_id = p.id and s.epoch = p.session_epoch
          and clock_timestamp() < s.expires_at
          and clock_timestamp() < s.seen_at + ${SESSION_IDLE_DAYS}::int * interval '1 day'
      ) as "sessionCount"
    from person p
    where (${input.personId}::uuid is null or p.id = ${input.personId}::uuid)
      and (${afterAt}::timestamptz is null
        or (p.created_at, p.id) < (${afterAt}::timestamptz, ${afterId}::uuid))
    order by p.created_at desc, p.id desc
    limit ${input.limit}`;
  return rows.map(personRow);
}

/** People, newest first. */
export async function listPeople(
  sql: Sql<'general'>,
  input: { readonly cursor?: string | undefined; readonly limit: number },
): Promise<{ items: PersonRow[]; nextCursor: string | null }> {
  const after = input.cursor === undefined ? null : placeOf(input.cursor);
  const rows = await readPeople(sql, { personId: null, after, limit: input.limit + 1 });
  return pageOf(rows, input.limit, (person) => [person.createdAt, person.personId]);
}

/** The person with this address, in lower case. Index: `person_email_key`. */
export async function findPersonId(
  sql: Sql<'general'>,
  email: string,
): Promise<string | undefined> {
  const rows = await sql.$queryRaw<{ personId: string }[]>`
    select p.id::text as "personId"
    from person p
    where p.email = ${email}`;
  return rows[0]?.personId;
}

/** @throws {LeaseError} `person.not_found`. */
export async function readPerson(sql: Sql<'general'>, personId: string): Promise<PersonRow> {
  const [person] = await readPeople(sql, { personId, after: null, limit: 1 });
  if (person === undefined) throw new LeaseError('person.not_found');
  return person;
}
