/** What freezes have to do with grants: whether one stops a request, and which. See `environment_freezes_on`. */
import type { GrantRequest } from '../../kernel/lease.ts';
import { type Fragment, fragment, NO_FRAGMENT, type Sql } from '../../postgres/sql.ts';

/** The caller that asks although it may be frozen, as JSON by lease id. */
function overridesOf(requests: readonly GrantRequest[]): string {
  const overrides = requests.flatMap(({ leaseId, actor, override }) =>
    override === undefined ? [] : [[leaseId, { actor, ...override }] as const],
  );
  return JSON.stringify(Object.fromEntries(overrides));
}

function stopping(requests: readonly GrantRequest[]): Fragment {
  return fragment`
          select from environment_freezes_on(w.namespace, w.name, w.tag) f
          where not environment_freeze_passes(
            f.pass_roles, f.pass_people, ${overridesOf(requests)}::jsonb -> w.lease_id::text)`;
}

/**
 * The condition that no freeze stops a request `w`. Nothing at all for requests of which none is for an
 * environment: their statement is the one that it would be without freezes.
 *
 * - **Locks**: the table of freezes in ROW SHARE mode, until the end of the transaction.
 * - **Atomic because** who adds a freeze waits for that lock: a grant that has not seen a freeze is committed
 *   before the freeze is. The function reads what was committed before it was called, however long its statement
 *   has waited, and the clock then.
 * - **Index**: `environment_freeze_place_idx`, one probe for the namespace and those above it.
 */
export function andNotFrozen(requests: readonly GrantRequest[]): Fragment {
  if (requests.every(({ face }) => face !== 'environment')) return NO_FRAGMENT;
  return fragment`
        and (w.face <> 'environment' or not exists (${stopping(requests)}))`;
}

/**
 * What the event of a grant says beside `detail`: which freezes a request `w` has overridden, and why. One that recurs
 * and whose window is over is not among them: the caller has given it its next window before.
 */
export function andOverridden(requests: readonly GrantRequest[]): Fragment {
  if (requests.every(({ override }) => override === undefined)) return NO_FRAGMENT;
  return fragment` || coalesce((
            select jsonb_build_object('override', jsonb_build_object(
              'reason', ${overridesOf(requests)}::jsonb -> w.lease_id::text -> 'reason',
              'freezes', jsonb_agg(f.freeze_id)))
            from environment_freezes_on(w.namespace, w.name, w.tag) f
            where f.window_until > clock_timestamp()
              and ${overridesOf(requests)}::jsonb -> w.lease_id::text is not null
            having count(*) > 0
          ), '{}')`;
}

/** A freeze that stops a request. Instants are epoch milliseconds of the database. */
export interface StoppingFreeze {
  /** Of the request, from 1. */
  readonly place: number;
  readonly freezeId: string;
  readonly namespace: string;
  readonly name: string | null;
  readonly reason: string;
  readonly schedule: string | null;
  readonly durationMs: number | null;
  readonly zone: string | null;
  readonly windowUntil: number;
  readonly passRoles: string[];
  readonly passPeople: string[];
  readonly asOf: number;
}

/**
 * The freezes that stop these requests, those that last the longest first. A recurring one whose window is over
 * is among them: {@link advanceFreeze} has to find its next one.
 */
export function readStoppingFreezes(
  sql: Sql<'general' | 'guests' | 'transitions'>,
  requests: readonly GrantRequest[],
): Promise<StoppingFreeze[]> {
  return sql.$queryRaw<StoppingFreeze[]>`
    select w.place::int as place, f.freeze_id as "freezeId", f.namespace, f.name, f.reason, f.schedule,
      f.duration_ms::float8 as "durationMs", f.zone,
      extract(epoch from f.window_until)::float8 * 1000 as "windowUntil",
      f.pass_roles as "passRoles", f.pass_people as "passPeople",
      extract(epoch from clock_timestamp())::float8 * 1000 as "asOf"
    from unnest(
      ${requests.map(({ leaseId }) => leaseId)}::uuid[],
      ${requests.map(({ namespace }) => namespace)}::text[],
      ${requests.map(({ name }) => name)}::text[],
      ${requests.map(({ tag }) => tag)}::text[]
    ) with ordinality as w (lease_id, namespace, name, tag, place)
    cross join lateral environment_freezes_on(w.namespace, w.name, w.tag) f
    where not environment_freeze_passes(
      f.pass_roles, f.pass_people, ${overridesOf(requests)}::jsonb -> w.lease_id::text)
    order by w.place, f.window_until desc`;
}

/**
 * Gives a recurring freeze its next window, if its present one is the one that was seen and is over; without a
 * next one the freeze is over. Zero rows: another did so before, or it was removed. Index: the primary key.
 */
export async function advanceFreeze(
  sql: Sql<'general'>,
  freezeId: string,
  seenUntilMs: number,
  next: { readonly fromMs: number; readonly untilMs: number } | undefined,
): Promise<void> {
  const isOver = next === undefined;
  await sql.$queryRaw`
    update environment_freeze f
    set window_from = case when ${isOver} then f.window_from else ${instant(next?.fromMs)} end,
        window_until = case when ${isOver} then f.window_until else ${instant(next?.untilMs)} end,
        ends_at = case when ${isOver} then f.window_until else f.ends_at end
    where f.freeze_id = ${freezeId}::uuid and f.removed_at is null and f.schedule is not null
      and f.window_until = ${instant(seenUntilMs)} and f.window_until <= clock_timestamp()
    returning 1 as advanced`;
}

/** An instant of epoch milliseconds. */
export function instant(ms: number | undefined): Fragment {
  return fragment`${ms === undefined ? null : new Date(Math.round(ms)).toISOString()}::timestamptz`;
}
