/**
 * The outbox towards drones. An action is sent until it is acknowledged or cancelled. Order is kept
 * for each backend alone: an earlier action that is not acknowledged yet holds back the later ones
 * of its backend, so that no terminate overtakes its spawn, and holds back no others.
 */
import type { LogPage, LogQuestion, LogRequest } from '../../kernel/drones.ts';
import { LeaseError } from '../../kernel/errors.ts';
import type { Store } from '../../postgres/open-store.ts';
import { readClock } from '../../postgres/records.ts';
import { onlyRow, type Sql } from '../../postgres/sql.ts';
import type { OutboxAction } from '../fleet-views.ts';
import type { SessionRef } from './drone-sessions.ts';

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
        -- Who waits for what is written later keeps nobody from what is there.
        order by coalesce((request ->> 'waitMs')::float8, 0) > 0, asked_at
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

// Questions to drones, asked at any controller and answered over the session of the drone at whichever controller
// carries it: a row that is there until it is answered or given up. Nothing depends on one: the caller waits a few
// seconds, and asks again if it still wants to know.

/** How long a drone may take to answer, beside the time that it was asked to wait. */
const ANSWER_MS_MAX = 5_000;
/** How long an answer goes unnoticed when its hint is lost. */
const LOOK_MS = 1_000;

/** What is older than this, nobody asks any more. */
const LEFT_OVER_MS = 600_000;

type QuestionStore = Pick<Store, 'general' | 'hints' | 'clock' | 'ids'>;

/**
 * Asks a drone for a part of a backend's output.
 * @throws {LeaseError} `backend.logs_unavailable` when it does not answer in time.
 */
export async function askForLog(
  store: QuestionStore,
  droneId: string,
  request: LogRequest,
  signal: AbortSignal,
): Promise<LogPage> {
  const questionId = store.ids.uuid();
  await insertQuestion(store, { questionId, droneId, request });
  const untilMs = store.clock.nowMs() + ANSWER_MS_MAX + (request.waitMs ?? 0);
  try {
    // Answers are waited for before the drone is told, so that no hint is missed.
    let answered = nextHint(store, questionId, untilMs, signal);
    store.hints.notify(`drone:${droneId}`);
    for (;;) {
      await answered;
      answered = nextHint(store, questionId, untilMs, signal);
      const answer = await takeAnswer(store, questionId);
      if (answer !== undefined) return answer;
      signal.throwIfAborted();
      if (store.clock.nowMs() >= untilMs) {
        throw new LeaseError(
          'backend.logs_unavailable',
          `The drone ${droneId} does not answer: it is not connected, too many read its logs, or it is of a version that keeps its output to itself.`,
          { details: { droneId } },
        );
      }
    }
  } finally {
    // What has no answer yet is not asked any more.
    await store.general.records.droneQuestion.deleteMany({ where: { id: questionId } });
  }
}

function nextHint(
  { hints, clock }: QuestionStore,
  id: string,
  untilMs: number,
  signal: AbortSignal,
) {
  return hints.next(`question:${id}`, Math.min(untilMs, clock.nowMs() + LOOK_MS), signal);
}

async function insertQuestion(
  { general }: QuestionStore,
  of: { readonly questionId: string; readonly droneId: string; readonly request: LogRequest },
): Promise<void> {
  const { droneQuestion } = general.records;
  // What controllers that were ended have left.
  const leftOver = new Date(Number(await readClock(general)) - LEFT_OVER_MS);
  await droneQuestion.deleteMany({ where: { askedAt: { lt: leftOver } } });
  const { questionId: id, droneId, request } = of;
  await droneQuestion.createMany({ data: { id, droneId, request: { ...request } } });
}

async function takeAnswer({ general }: QuestionStore, id: string): Promise<LogPage | undefined> {
  const question = await general.records.droneQuestion.findUnique({ where: { id } });
  return (question?.answer ?? undefined) as LogPage | undefined;
}

/**
 * Records what a drone answers. A question that nobody asks any more is passed over.
 * @throws {LeaseError} `session.superseded` for an older session.
 */
export async function answerQuestion(
  store: QuestionStore,
  { droneId, clockId, session, questionId, page }: QuestionAnswer,
): Promise<{ isWanted: boolean }> {
  const rows = await store.general.$queryRaw<{ isNewest: boolean; isWanted: boolean }[]>`
    with newest as (
      select d.id from drone d
      where d.id = ${droneId} collate "C" and d.session = ${session}::bigint
        and d.clock_id = ${clockId}::uuid
    ),
    answered as (
      update drone_question q
      set answer = ${JSON.stringify(page)}::jsonb
      from newest n
      where q.id = ${questionId}::uuid and q.drone_id = n.id and q.answer is null
      returning q.id
    )
    select exists (select from newest) as "isNewest", exists (select from answered) as "isWanted"`;
  const { isNewest, isWanted } = onlyRow(rows);
  if (!isNewest) throw new LeaseError('session.superseded');
  if (isWanted) store.hints.notify(`question:${questionId}`);
  return { isWanted };
}

export interface QuestionAnswer extends SessionRef {
  readonly questionId: string;
  readonly page: LogPage;
}
