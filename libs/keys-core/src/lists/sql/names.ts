/**
 * How names are found by any part of them. `search_name` has the names as they are printed, folded;
 * `search_name_grams_idx` has their trigrams. A bitmap of half a million names would take longer than
 * a person waits, so a search first looks at some pages of the table, spread evenly. What many names
 * contain is found there, often enough; only for what is rare the index is asked.
 */
import { C, type Fragment, fragment, type Sql } from '../../postgres/sql.ts';

/** Pages of `search_name` that a look reads at most, and half as many at least: some 5,000 names. */
const LOOK_PAGES = 96;
const PAGE_BYTES = 8_192;
/** With fewer matches among those names, a text is in no more than one or two of a hundred names. */
export const LOOK_MATCHES_MIN = 50;
/** The newest events that are read for names that are not filled yet: a second of heavy use. */
const NEW_EVENTS_MAX = 10_000;

/** A text as names are compared with it. */
export function foldedOf(text: string): Fragment {
  return fragment`search_folded(${text})`;
}

/** Whether the printed name of a row contains a text, whatever its case. */
export function containsText(text: string, namespace: Fragment, name: Fragment): Fragment {
  return fragment`strpos(search_text(${namespace}, ${name}), ${foldedOf(text)}) > 0`;
}

/** Whether a look reads the whole table of names. Asked once, not for each row. */
export const IS_ALL_SEEN = fragment`(
  (select pg_relation_size('search_name'::regclass)) <= ${LOOK_PAGES * PAGE_BYTES}::bigint)`;

/**
 * Some pages of the names, the same ones each time: a share that is a power of two, so that it changes
 * seldom while the table grows. The alias is `n`.
 */
export const SOME_NAMES = fragment`search_name n tablesample system ((
    100 * least(1, power(2, floor(ln(
      ${LOOK_PAGES * PAGE_BYTES}::float8 / greatest(pg_relation_size('search_name'::regclass), 1)
    ) / ln(2))))
  )::real) repeatable (0)`;

/** Whether a name has all pieces of a text; at the beginning of a word. Index: `search_name_grams_idx`. */
export function hasPieces(text: string, where: 'anywhere' | 'word'): Fragment {
  return fragment`search_grams(n.text) @@ search_query(${foldedOf(text)}, ${where === 'word'}::boolean)`;
}

/** Names of the newest grants, which may not be filled yet. The alias is `v`. Index: the events' key. */
export const NEW_NAMES = fragment`(
    select v.face, v.namespace, v.name
    from (
      select v.face, v.namespace, v.name, v.kind
      from lease_event v
      where v.id > (select m.through_id from search_mark m where m.part = 'events')
      order by v.id desc
      limit ${NEW_EVENTS_MAX}
    ) v
    where v.kind in ('granted', 'taken_over')
    group by v.face, v.namespace, v.name
  ) v`;

/**
 * The names of a face that contain a text, for a text that is rare: a look has found few. The columns are
 * `namespace` and `name`.
 */
export function namesWith(text: string, face: string): Fragment {
  return fragment`
    select n.namespace, n.name
    from search_name n
    where ${hasPieces(text, 'anywhere')} and strpos(n.text, ${foldedOf(text)}) > 0
      and n.kind = ${face} ${C}
    union
    select v.namespace, v.name
    from ${NEW_NAMES}
    where v.face = ${face} and ${containsText(text, fragment`v.namespace`, fragment`v.name`)}`;
}

/**
 * Whether the index of names finds all names with a text, and few of them: a look has found few, and the names
 * of resources that were there before have been filled.
 */
export async function isRareName(sql: Sql<'reads'>, text: string): Promise<boolean> {
  const [row] = await sql.$queryRaw<{ count: number; isFilled: boolean }[]>`
    select count(*)::int as count, ${ARE_NAMES_FILLED} as "isFilled"
    from ${SOME_NAMES}
    where strpos(n.text, ${foldedOf(text)}) > 0`;
  return row?.isFilled === true && row.count < LOOK_MATCHES_MIN;
}

/** Whether the names of everything that was there before are filled. */
export const ARE_NAMES_FILLED = fragment`(
  select bool_and(m.walked_at is not null) from search_mark m where m.part in ('leases', 'backends'))`;
