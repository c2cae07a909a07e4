import { statusRank, type BackendStatus } from '../../kernel/backend-state.ts';
import { LeaseError, ERROR_CODES, type ErrorCode } from '../../kernel/errors.ts';
import { LIMITS } from '../../kernel/limits.ts';
import { AnsweredMeanwhile } from './start-backend.ts';
import { readAnswer, recordAnswer, type RecordedAnswer } from '../../store/requests.ts';
import { readBackendAnswer } from '../../store/backend-answer.ts';
import type { Store } from '../../store/open-store.ts';
import type { Caller } from '../face-types.ts';
import type { ConnectInput, ConnectResult } from './key-types.ts';

/**
 * One idempotency key, one attempt, one answer, refusals included: a late duplicate of a request
 * that was refused must not start a backend that nobody waits for. Retryable refusals are not
 * recorded, because asking again is what they ask for.
 */
export async function connectOnceFor(
  store: Store,
  input: ConnectInput,
  caller: Caller,
  attempt: () => Promise<ConnectResult>,
): Promise<ConnectResult> {
  const { idempotencyKey } = input;
  if (idempotencyKey === undefined) return attempt();
  const replayed = await readAnswer(store.prisma, caller.principal, idempotencyKey);
  if (replayed !== undefined) return replay(store, replayed);
  const request = { principal: caller.principal, idempotencyKey };
  try {
    const result = await attempt();
    const { backendId, spawned } = result;
    if (spawned) return result;
    await recordAnswer(store.prisma, request, { backendId, spawned });
    // Of two equal requests at once the first answer counts for both.
    const first = await readAnswer(store.prisma, caller.principal, idempotencyKey);
    return first === undefined ? result : await replay(store, first);
  } catch (error) {
    if (error instanceof AnsweredMeanwhile) {
      const first = await readAnswer(store.prisma, caller.principal, idempotencyKey);
      if (first !== undefined) return replay(store, first);
    }
    if (error instanceof LeaseError && !error.retryable) {
      const { code, message, details } = error;
      await recordAnswer(store.prisma, request, {
        error: { code, message, details: { ...details } },
      });
    }
    throw error;
  }
}

async function replay(store: Store, answer: RecordedAnswer): Promise<ConnectResult> {
  if ('error' in answer) {
    const code: ErrorCode =
      answer.error.code in ERROR_CODES ? (answer.error.code as ErrorCode) : 'internal.error';
    throw new LeaseError(code, answer.error.message, { details: answer.error.details });
  }
  return resultOf(store, answer.backendId, answer.spawned);
}

async function resultOf(store: Store, backendId: string, spawned: boolean): Promise<ConnectResult> {
  const row = await readBackendAnswer(store.prisma, backendId);
  if (row === undefined) throw new LeaseError('backend.not_found');
  const { name, namespace, tag, status, ...rest } = row;
  return { ...rest, key: { name, namespace, tag }, status: status as BackendStatus, spawned };
}

/** How long a connect waits for readiness without looking when no hint comes. */
const LOOK_INTERVAL_MS = 1_000;

/**
 * Waits until the backend is ready, or is over, or {@link LIMITS.waitMsMax} have passed; answers
 * with what it is then.
 */
export async function waitUntilReady(
  store: Store,
  result: ConnectResult,
  signal: AbortSignal,
): Promise<ConnectResult> {
  const untilMs = store.clock.nowMs() + LIMITS.waitMsMax;
  let latest = result;
  while (statusRank(latest.status) < statusRank('ready') && store.clock.nowMs() < untilMs) {
    signal.throwIfAborted();
    const hint = store.hints.next(
      `backend:${result.backendId}`,
      Math.min(untilMs, store.clock.nowMs() + LOOK_INTERVAL_MS),
      signal,
    );
    latest = await resultOf(store, result.backendId, result.spawned);
    if (statusRank(latest.status) < statusRank('ready')) await hint;
  }
  return latest;
}
