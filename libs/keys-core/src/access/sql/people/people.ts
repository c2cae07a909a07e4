import type { Count, Page, Searched, SearchedPage } from '../../../kernel/face-types.ts';
import type { PersonView } from '../../people-types.ts';
import { LeaseError } from '../../../kernel/errors.ts';
import { boundedCount, isUuid, pageOf, placeAfter } from '../../../postgres/paging.ts';
import type { RecordSql } from '../../../postgres/records.ts';
import {
  contains,
  type Dated,
  type Fragment,
  fragment,
  isoDates,
  type Sql,
} from '../../../postgres/sql.ts';
import { SESSION_IDLE_DAYS } from './person-sessions.ts';
import { SIGN_IN_METHODS } from '../sign-in/sign-in-methods.ts';

type PersonRow = Dated<PersonView, 'lockedUntil' | 'createdAt' | 'lastSignInAt'>;

/**
 * People, newest first, or one of them. Indexes: `person_created_at_idx`; for each person on the page
 * `person_account_person_id_idx`, `person_session_person_id_idx` and the key of `sign_in_failure`.
 */
async function readPeople(
  sql: Sql<'general'>,
  input: {
    readonly personId: string | null;
    readonly after: readonly [string, string] | null;
    readonly search?: string | undefined;
    readonly limit: number;
  },
): Promise<PersonView[]> {
  const [afterAt, afterId] = input.after ?? [null, null];
  const rows = await sql.$queryRaw<PersonRow[]>`
    select p.id::text as "personId", p.email, p.name, p.role, p.namespaces,
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
      and ${isFound(input)}
    order by p.created_at desc, p.id desc
    limit ${input.limit}`;
  return rows.map((row) => isoDates(row));
}

/** People, newest first. */
export async function listPeople(
  sql: Sql<'general'>,
  input: SearchedPage,
): Promise<Page<PersonView>> {
  const after = input.cursor === undefined ? null : placeAfter(input.cursor, isUuid);
  const { search, limit } = input;
  const rows = await readPeople(sql, { personId: null, after, search, limit: limit + 1 });
  return pageOf(rows, input.limit, (person) => [person.createdAt, person.personId]);
}

/** How many people all pages have together. */
export function countPeople(sql: Sql<'general'>, input: Searched): Promise<Count> {
  return boundedCount(sql, fragment`person p where ${isFound(input)}`);
}

/** Whether the search is a part of the name or the e-mail address, in any case. */
function isFound({ search }: Searched): Fragment {
  return search === undefined
    ? fragment`true`
    : contains(fragment`concat_ws(' ', p.name, p.email)`, search);
}

/** The person with this address, in lower case. */
export async function findPersonId(
  { records }: RecordSql,
  email: string,
): Promise<string | undefined> {
  const person = await records.person.findUnique({ where: { email }, select: { id: true } });
  return person?.id;
}

/** @throws {LeaseError} `person.not_found`. */
export async function readPerson(sql: Sql<'general'>, personId: string): Promise<PersonView> {
  const [person] = await readPeople(sql, { personId, after: null, limit: 1 });
  if (person === undefined) throw new LeaseError('person.not_found');
  return person;
}
