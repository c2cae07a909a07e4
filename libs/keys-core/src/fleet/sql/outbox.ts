/**
 * The outbox towards drones. An action is sent until it is acknowledged or cancelled. Order is kept
 * for each backend alone: an earlier action that is not acknowledged yet holds back the later ones
 * of its backend, so that no terminate overtakes its spawn, and holds back no others.
 */
import { LeaseError } from '../../kernel/errors.ts';
import { onlyRow, type Sql } from '../../postgres/sql.ts';
import type { SessionRef } from './drone-sessions.ts';
import type { LogQuestion } from '../../kernel/drones.ts';
import type { OutboxAction } from '../fleet-views.ts';

/** What one read takes for one drone; the rest follows when these are acknowledged. */
const ACTIONS_PER_READ_MAX = 256;
const QUESTIONS_PER_READ_MAX = 32;

/** What is to be sent to a drone, and which of its sessions is the newest. */
export interface Outbox {
  readonly droneId: string;
  readonly session: number;
  readonly actions: readonly OutboxAction[];
  /** What it is asked, and has not answered. */
  readonly questions: readonly Pick<LogQuestion, 'questionId' | 'request'>[];
}

/**
 * Reads the outboxes of several drones in one statement: for each backend its first open action, and open questions.
 * Locks nothing. Indexes: `backend_action_drone_id_idx` and `drone_question_drone_id_idx`, which hold open ones only. A
 * drone that is not in the result was never registered.
 */
export async function readOutboxes(
  sql: Sql<'vital'>,
  droneIds: readonly string[],
): Promise<Outbox[]> {
  const rows = await sql.$queryRaw<
    (Omit<Outbox, 'actions' | 'questions'> & {
      actions: OutboxAction[] | null;
      questions: Outbox['questions'] | null;
    })[]
  >`
    select d.id as "droneId", d.session::float8 as session, o.actions, asked.questions
    from drone d
    cross join lateral (
      select jsonb_agg(
        jsonb_build_object(
          'actionId', f.id::text, 'backendId', f.backend_id, 'kind', f.kind, 'payload', f.payload
        ) order by f.id
      ) as actions
      from (
        select *
        from (
          select distinct on (a.backend_id) a.id, a.backend_id, a.kind, a.payload
          from backend_action a
          where a.drone_id = d.id and a.acked_at is null and a.cancelled_at is null
          order by a.backend_id, a.id
        ) as first_open
        order by id
        limit ${ACTIONS_PER_READ_MAX}
      ) as f
    ) as o
    cross join lateral (
      select jsonb_agg(
        jsonb_build_object('questionId', q.id, 'request', q.request) order by q.asked_at
      ) as questions
      from (
        select * from drone_question
        where drone_id = d.id and answer is null
        order by asked_at
        limit ${QUESTIONS_PER_READ_MAX}
      ) as q
    ) as asked
    where d.id = any(${[...droneIds]}::text[])`;
  return rows.map((row) => ({
    ...row,
    actions: row.actions ?? [],
    questions: row.questions ?? [],
  }));
}

/**
 * Acknowledges an action. Doing so twice is safe: `acknowledged` is false when it was acknowledged
 * or cancelled before, or is not an action of this drone.
 *
 * @throws {LeaseError} `session.superseded` for an older session.
 */
export async function acknowledgeAction(
  sql: Sql<'vital'>,
  ack: SessionRef & { readonly actionId: string },
): Promise<{ acknowledged: boolean }> {
  const rows = await sql.$queryRaw<{ isNewest: boolean; acknowledged: boolean }[]>`
    with newest as (
      select d.id
      from drone d
      where d.id = ${ack.droneId} collate "C"
        and d.session = ${ack.session}::bigint
        and d.clock_id = ${ack.clockId}::uuid
    ),
    acked as (
      update backend_action a
      set acked_at = clock_timestamp()
      from newest n
      where a.id = ${ack.actionId}::bigint and a.drone_id = n.id
        and a.acked_at is null and a.cancelled_at is null
      returning a.id
    )
    select exists (select from newest) as "isNewest", exists (select from acked) as acknowledged`;
  const { isNewest, acknowledged } = onlyRow(rows);
  if (!isNewest) throw new LeaseError('session.superseded');
  return { acknowledged };
}
