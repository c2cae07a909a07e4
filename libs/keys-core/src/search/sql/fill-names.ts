/**
 * Fills the table of names, apart from grants and renewals: those write nothing for it. One controller at
 * a time adds the names of grants as their events become final, and walks through all leases and
 * backends and all names, again and again, for what has no event: a database that was in use before,
 * rows that were deleted. Each statement locks the row of its part, or leaves it to the controller that has it.
 *
 * A table, and no index of `lease`: each grant makes another version of its row in every index. Trigrams of our own,
 * and not `pg_trgm`: an extension that many roles may not add, and that finds nothing for fewer than three characters.
 */
import { ARE_NAMES_FILLED } from '../../lists/index.ts';
import { C, type Fragment, fragment, isFound, type Sql } from '../../postgres/sql.ts';

/** Some 3 ms for events of known names, and 400 ms if all are new: far from where statements are cancelled. */
const EVENTS_PER_STATEMENT_MAX = 4_000;
/** Some 10 ms where nothing is missing. */
const ROWS_PER_STATEMENT_MAX = 1_000;

export const WALKS = ['leases', 'backends', 'names'] as const;
export type Walk = (typeof WALKS)[number];

const NAME_COLUMNS = fragment`kind, namespace, name, text, name_at`;

/** A row of `search_name` for each of these, unless it is there. The alias of the rows is `w`. */
function adding(wanted: Fragment): Fragment {
  return fragment`
    insert into search_name (${NAME_COLUMNS})
    select w.kind, w.namespace, w.name, t.text,
      char_length(t.text) - char_length(search_folded(w.name)) + 1
    from (${wanted}) w
    cross join lateral (
      select case when w.kind = 'backend' then search_folded(w.name)
        else search_text(w.namespace, w.name) end ${C} as text
    ) t
    where not ${isFound(fragment`
      select true from search_name n
      where n.kind = w.kind and n.namespace = w.namespace and n.name = w.name`)}
    on conflict do nothing
    returning true`;
}

/**
 * Adds the names of grants whose events are final: those that the statistics count. **Locks** the mark of
 * events, or gives up. **Atomic because** it is one statement, which adds names and moves the mark.
 * **Index**: the primary key of events, a range, of which nothing is kept but the names; for each name
 * the primary keys, and `backend_lease_id_key`. @returns whether there may be more; undefined if there was
 * nothing, or another controller does it.
 */
export async function addGrantedNames(sql: Sql<'general'>): Promise<boolean | undefined> {
  const [row] = await sql.$queryRaw<{ isMore: boolean }[]>`
    with place as materialized (
      select m.through_id, c.through_id as final_id,
        least(c.through_id, m.through_id + ${EVENTS_PER_STATEMENT_MAX}) as next_id
      from search_mark m
      cross join stats_cursor c
      where m.part = 'events' and m.through_id < c.through_id
      for update of m skip locked
    ),
    granted as materialized (
      select v.face, v.namespace, v.name
      from lease_event v
      where v.id > (select p.through_id from place p) and v.id <= (select p.next_id from place p)
        and v.kind in ('granted', 'taken_over')
      group by v.face, v.namespace, v.name
    ),
    wanted as materialized (
      select g.face as kind, g.namespace, g.name from granted g
      union all
      -- The backend of the newest grant; others of the same moment are found by the walk.
      select 'backend', b.namespace, b.id
      from granted g
      cross join lateral (
        select l.lease_id from lease l
        where l.face = g.face and l.namespace = g.namespace and l.name = g.name
        limit 1
      ) l
      cross join lateral (
        select b.namespace, b.id from backend b where b.lease_id = l.lease_id limit 1
      ) b
      where g.face = 'key'
    ),
    added as (${adding(fragment`select * from wanted`)})
    update search_mark m
    set through_id = p.next_id
    from place p
    where m.part = 'events'
    returning p.next_id < p.final_id as "isMore"`;
  return row?.isMore;
}

interface WalkParts {
  /** The next rows after the place `p.place`, with their own `place`. */
  readonly page: Fragment;
  /** What is done about the rows of `page`. */
  readonly act: Fragment;
}

const PARTS: Record<Walk, WalkParts> = {
  leases: {
    page: fragment`
      select l.face as kind, l.namespace, l.name, array[l.face, l.namespace, l.name] as place
      from lease l
      where (l.face, l.namespace, l.name) > (coalesce(p.place[1], ''), coalesce(p.place[2], ''), coalesce(p.place[3], ''))
      order by l.face, l.namespace, l.name`,
    // Slots of pools have names of their own, which nobody looks for.
    act: adding(fragment`
      select v.kind, v.namespace, v.name from page v where strpos(v.name, chr(31)) = 0`),
  },
  backends: {
    page: fragment`
      select 'backend' as kind, b.namespace, b.id as name, array[b.id] as place
      from backend b
      where b.id > coalesce(p.place[1], '')
      order by b.id`,
    act: adding(fragment`select v.kind, v.namespace, v.name from page v`),
  },
  names: {
    page: fragment`
      select n.kind, n.namespace, n.name, array[n.kind, n.namespace, n.name] as place, n.ctid as at
      from search_name n
      where (n.kind, n.namespace, n.name) > (coalesce(p.place[1], ''), coalesce(p.place[2], ''), coalesce(p.place[3], ''))
      order by n.kind, n.namespace, n.name`,
    act: fragment`
      delete from search_name n
      where n.ctid = any(array(
        select v.at from page v
        where case
          when v.kind = 'backend'
            then not ${isFound(fragment`select true from backend b where b.id = v.name`)}
          else not ${isFound(fragment`
            select true from lease l
            where l.face = v.kind and l.namespace = v.namespace and l.name = v.name`)}
        end))
      returning true`,
  },
};

/** How far a walk has come: whether it has just ended, and whether it had ended before. */
export interface Walked {
  readonly isAtEnd: boolean;
  readonly hasEnded: boolean;
  /** How many names it has added or removed. */
  readonly actedCount: number;
}

/**
 * The next part of a walk. **Locks** the mark of the walk, or gives up. A name that is removed while its
 * resource is granted again is added by the event of that grant: one controller does both, one after
 * the other. **Index**: a range of the primary key. Undefined: another controller does it.
 */
export async function walkOn(sql: Sql<'general'>, walk: Walk): Promise<Walked | undefined> {
  const { page, act } = PARTS[walk];
  const [row] = await sql.$queryRaw<Walked[]>`
    with place as materialized (
      select m.place from search_mark m where m.part = ${walk} ${C} for update skip locked
    ),
    page as materialized (
      select v.* from place p cross join lateral (${page} limit ${ROWS_PER_STATEMENT_MAX}) v
    ),
    acted as (${act}),
    reached as (
      select count(*) < ${ROWS_PER_STATEMENT_MAX} as is_at_end,
        max(v.place collate "C") as place
      from page v
    )
    update search_mark m
    set place = case when r.is_at_end then null else r.place end,
      walked_at = case when r.is_at_end then clock_timestamp() else m.walked_at end
    from place p, reached r
    where m.part = ${walk} ${C}
    returning r.is_at_end as "isAtEnd", m.walked_at is not null as "hasEnded",
      (select count(*)::int from acted) as "actedCount"`;
  return row;
}

/** Whether every name of a resource that was there before is filled. */
export async function areNamesFilled(sql: Sql<'reads'>): Promise<boolean> {
  const [row] = await sql.$queryRaw<{ isFilled: boolean | null }[]>`
    select ${ARE_NAMES_FILLED} as "isFilled"`;
  return row?.isFilled ?? false;
}
