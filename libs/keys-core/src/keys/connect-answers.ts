import {
  createCoalescer,
  idempotentRequest,
  type KeyedRequest,
  keyText,
  readRequest,
  recordAnswers,
  type RecordedRefusal,
  refusalIn,
  refusalOf,
  type RequestAnswer,
} from '../grants/index.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Caller } from '../kernel/face-types.ts';
import { hasFailed, sayEnd, sayLived, signalOf } from '../kernel/backends.ts';
import type { RecordedRequest } from '../kernel/requests.ts';
import { LIMITS } from '../kernel/limits.ts';
import type { Store } from '../postgres/open-store.ts';
import { isoOf } from '../postgres/sql.ts';
import type { ConnectResult, NamedConnect } from './key-types.ts';
import { touchBackends } from './sql/idle-stop.ts';
import { readKeyFailures } from './sql/key-failures.ts';
import { readBackendAnswer, readBackendEnd } from './sql/key-state.ts';
import { AnsweredMeanwhile } from './start-backend.ts';

/** What is recorded of a connect: its result or its error. */
type RecordedConnect = { readonly backendId: string; readonly spawned: boolean } | RecordedRefusal;

/** The answers of connects that are recorded under their idempotency keys. */
export interface ConnectAnswers {
  readonly store: Store;
  /**
   * Records an answer; of two equal requests at once the first answer counts for both, and is returned.
   * @throws {LeaseError} the refusal that the request got first; `request.idempotency_reused`.
   */
  first(request: KeyedRequest, answer: RecordedConnect): Promise<ConnectResult | undefined>;
}

const ANSWERS_PER_STATEMENT_MAX = 200;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;

/** Those that came together are recorded by one statement. */
export function createConnectAnswers(store: Store): ConnectAnswers {
  const records = createCoalescer<RequestAnswer, boolean>({
    run: (answers) => recordAnswers(store.transitions, answers),
    keysOf: ({ request }) => [keyText(request)],
    batchSizeMax: ANSWERS_PER_STATEMENT_MAX,
    inFlightMax: STATEMENTS_IN_FLIGHT_MAX,
    queueMax: QUEUE_MAX,
    isGathering: true,
  });
  return {
    store,
    first: async (request, answer) =>
      (await records.submit({ request, answer })) ? undefined : answeredBefore(store, request),
  };
}

/**
 * One idempotency key, one attempt, one answer, refusals included: a late duplicate of a request
 * that was refused must not start a backend that nobody waits for. Retryable refusals are not
 * recorded, because the caller is meant to ask again. `attempt` looks for an earlier answer before it does
 * anything, and records its own.
 * @throws {LeaseError} `request.idempotency_reused`.
 */
export async function connectOnceFor(
  answers: ConnectAnswers,
  request: KeyedRequest | undefined,
  attempt: () => Promise<ConnectResult>,
): Promise<ConnectResult> {
  if (request === undefined) return attempt();
  try {
    return await attempt();
  } catch (error) {
    if (error instanceof AnsweredMeanwhile) {
      const first = await answeredBefore(answers.store, request);
      if (first !== undefined) return first;
    }
    return refuseOnce(answers, request, error);
  }
}

/**
 * Records why a connect is refused, and throws it. @returns the answer that the request got here before, if any.
 * A caller that may not have it is only refused.
 */
export async function refuseOnce(
  answers: ConnectAnswers,
  request: KeyedRequest | undefined,
  error: unknown,
): Promise<ConnectResult> {
  const refusal = refusalOf(error);
  if (request === undefined || refusal === undefined) throw error;
  const first = await answers.first(request, refusal);
  if (first === undefined || refusal.error.code === 'auth.forbidden') throw error;
  return first;
}

/**
 * A connect in the form that is recorded with its idempotency key; undefined without a key. Its fingerprint is made
 * when somebody asks for it: a connect that finds a backend, and could start none, needs none.
 */
export function keyedConnect(input: NamedConnect, { principal }: Caller): KeyedRequest | undefined {
  const { key, idempotencyKey } = input;
  if (idempotencyKey === undefined) return undefined;
  const resource = { face: 'key', namespace: key.namespace, name: key.name } as const;
  return {
    principal,
    idempotencyKey,
    ...resource,
    get fingerprint() {
      return idempotentRequest(resource, askedOf(input)).fingerprint;
    },
  };
}

/** All that a connect asks for besides its key. */
function askedOf({ key, spawn }: NamedConnect): Record<string, unknown> {
  const { program, args, env, lifetimeLimitSeconds = null, datacenter = null } = spawn ?? {};
  // Left out where it is not given: a request is told by the same fingerprint as before there was an idle stop.
  const idle =
    spawn?.idleStopSeconds === undefined ? {} : { idleStopSeconds: spawn.idleStopSeconds };
  return {
    tag: key.tag,
    spawn:
      spawn === undefined
        ? null
        : { program, args, env, lifetimeLimitSeconds, datacenter, ...idle },
  };
}

/**
 * The answer that this request got here before, or undefined.
 * @throws {LeaseError} the refusal that it got; `request.idempotency_reused`.
 */
export async function answeredBefore(
  store: Store,
  request: KeyedRequest,
): Promise<ConnectResult | undefined> {
  const record = await readRequest(store.general, request);
  return record === undefined ? undefined : replay(store, record);
}

async function replay(store: Store, record: RecordedRequest): Promise<ConnectResult> {
  const refusal = refusalIn(record.answer);
  if (refusal !== undefined) throw refusal;
  const { backendId, spawned } = record.answer as Exclude<RecordedConnect, RecordedRefusal>;
  return resultOf(store, backendId, spawned);
}

async function resultOf(store: Store, backendId: string, spawned: boolean): Promise<ConnectResult> {
  const row = await readBackendAnswer(store.general, backendId);
  if (row === undefined) throw new LeaseError('backend.not_found');
  const { name, namespace, tag, hasIdleStop, ...rest } = row;
  const { status } = rest;
  // Idleness counts from when it is ready: until then nobody needs to be noted.
  const isUsable = !hasIdleStop || status !== 'ready' || (await isStillUsable(store, rest.leaseId));
  return {
    ...rest,
    status: isUsable ? status : 'terminating',
    key: { name, namespace, tag },
    spawned,
  };
}

/** Notes a use: an answer that comes late, or again, sends its caller to the backend too. */
async function isStillUsable(store: Store, leaseId: string): Promise<boolean> {
  const [used] = await touchBackends(store.transitions, [{ leaseId, usedAgoMs: 0 }]);
  return used?.state === 'usable';
}

/** How often a connect that waits for readiness reads the backend when no hint comes. */
const LOOK_INTERVAL_MS = 1_000;

/**
 * Waits until the backend is ready, for `waitMs` at most.
 * @throws {LeaseError} `backend.failed` when it has ended instead, `backend.not_ready`.
 */
export async function waitUntilReady(
  store: Store,
  result: ConnectResult,
  signal: AbortSignal,
  waitMs: number = LIMITS.waitMsMax,
): Promise<ConnectResult> {
  const untilMs = store.clock.nowMs() + waitMs;
  let latest = result;
  while (isUndecided(latest) && store.clock.nowMs() < untilMs) {
    signal.throwIfAborted();
    const hint = store.hints.next(
      `backend:${result.backendId}`,
      Math.min(untilMs, store.clock.nowMs() + LOOK_INTERVAL_MS),
      signal,
    );
    latest = await resultOf(store, result.backendId, result.spawned);
    if (isUndecided(latest)) await hint;
  }
  if (latest.status === 'ready') return latest;
  const { backendId, droneId, address } = latest;
  if (latest.status !== 'terminated') {
    throw new LeaseError('backend.not_ready', undefined, {
      details: { backendId, droneId, status: latest.status },
    });
  }
  throw await failureOf(store, { backendId, droneId, address });
}

/** One that is stopping is followed to its end: only then its exit code and last lines are known. */
function isUndecided({ status }: ConnectResult): boolean {
  return status !== 'ready' && status !== 'terminated';
}

/** The error of a connect that may not start a backend yet, because the last ones have failed. */
export async function crashLoopOf(
  store: Store,
  key: NamedConnect['key'],
  remainingMs: number,
): Promise<LeaseError> {
  const found = await readKeyFailures(store.general, key);
  if (found === undefined) return new LeaseError('backend.crash_loop');
  const { failures, since, backendId } = found;
  const end = await readBackendEnd(store.general, backendId);
  const how = end === undefined ? '' : `; of the last one, ${sayEnd(end)}`;
  return new LeaseError(
    'backend.crash_loop',
    `The last ${String(failures)} backends of this key have failed, since ${isoOf(since)}${how}. The next start may be in ${String(Math.ceil(remainingMs / 1_000))} s.`,
    {
      details: {
        remainingMs: Math.ceil(remainingMs),
        failures,
        since: isoOf(since),
        backendId,
        reason: end?.reason ?? null,
        exitCode: end?.exitCode ?? null,
        output: end?.output ?? null,
      },
    },
  );
}

async function failureOf(
  store: Store,
  { backendId, droneId, address }: Pick<ConnectResult, 'backendId' | 'droneId' | 'address'>,
): Promise<LeaseError> {
  const end = await readBackendEnd(store.general, backendId);
  if (end === undefined) return new LeaseError('backend.not_found');
  const { reason, exitCode, livedMs, output, detail, wasBegun } = end;
  const isRefused = reason === 'internal' && !wasBegun;
  const when = address === null ? ' before it was ready' : '';
  return new LeaseError(
    'backend.failed',
    `The backend ended${when}: ${sayEnd(end)}${sayLived(livedMs)}.`,
    {
      details: {
        backendId,
        droneId,
        reason,
        hasFailed: !isRefused && hasFailed(end, address !== null),
        exitCode,
        signal: signalOf(exitCode) ?? null,
        livedMs,
        detail,
        output,
      },
    },
  );
}
