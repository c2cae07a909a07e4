/** Callers that ask for fresh leases all the time, each for one lease until it is granted. */
import { setTimeout as pause } from 'node:timers/promises';
import { isUnreachable, leaseholdErrorOf, type ControllerApi } from '@leasehold/client';
import { machineMs } from '../../stage/machine-time.ts';

/** What one call came to. */
export interface CallAnswer {
  readonly key: string;
  /** `granted`, `held`, or the code of the error. */
  readonly what: string;
  readonly token: string | undefined;
  /** Why, if the error names a reason. */
  readonly reason: string | undefined;
  /** Whether the same request may succeed later. */
  readonly isRetryable: boolean;
  readonly sentAtMs: number;
  readonly atMs: number;
}

export interface Callers {
  readonly answers: readonly CallAnswer[];
  /** Those of calls that were sent since then. */
  since(atMs: number): CallAnswer[];
  /** The tokens that were acknowledged, by key. */
  granted(): Map<string, string>;
  /** Ends them, each after its call. */
  stop(): Promise<void>;
}

export interface CallersOptions {
  /** One for each controller that is called, in turn. */
  readonly apis: readonly ControllerApi[];
  readonly namespace: string;
  /** How many calls are under way at once. */
  readonly count: number;
  readonly comment?: string | undefined;
}

/** Long enough that what was granted is still held when the test looks. */
const TTL_MS = 600_000;
const AGAIN_MS = 20;

export function startCallers({ apis, namespace, count, comment }: CallersOptions): Callers {
  const answers: CallAnswer[] = [];
  let isStopped = false;

  async function call(api: ControllerApi, key: string): Promise<CallAnswer> {
    const sentAtMs = machineMs();
    const answered = await api.leases.acquire
      .mutate({
        namespace: [namespace],
        key,
        comment,
        ttlMs: TTL_MS,
        holder: 'caller',
        localTimeMs: 0,
        // One attempt, however often it is sent: an answer that was lost is given again.
        idempotencyKey: `${namespace}-${key}`,
      })
      .then(
        (answer) => ({
          what: answer.outcome,
          token: answer.outcome === 'granted' ? answer.lease.fencingToken : undefined,
        }),
        failureOf,
      );
    const answer = { reason: undefined, isRetryable: true, token: undefined, ...answered };
    return { key, ...answer, sentAtMs, atMs: machineMs() };
  }

  async function run(caller: number): Promise<void> {
    const api = apis[caller % apis.length];
    for (let round = 0; api !== undefined && !isStopped;) {
      const answer = await call(api, `${String(caller)}-${String(round)}`);
      answers.push(answer);
      if (answer.what === 'granted') round += 1;
      await pause(AGAIN_MS);
    }
  }

  const runs = Array.from({ length: count }, (_, caller) => run(caller));
  return {
    answers,
    since: (atMs) => answers.filter(({ sentAtMs }) => sentAtMs >= atMs),
    granted: () =>
      new Map(answers.flatMap(({ key, token }) => (token === undefined ? [] : [[key, token]]))),
    async stop() {
      isStopped = true;
      await Promise.all(runs);
    },
  };
}

function failureOf(error: unknown): Pick<CallAnswer, 'what' | 'reason' | 'isRetryable'> {
  if (isUnreachable(error)) return { what: 'unreachable', reason: undefined, isRetryable: true };
  const failure = leaseholdErrorOf(error);
  const reason = failure?.details['reason'];
  return {
    what: failure?.code ?? String(error),
    reason: typeof reason === 'string' ? reason : undefined,
    isRetryable: failure?.retryable ?? false,
  };
}

/** How often each answer came. */
export function tally(answers: readonly CallAnswer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { what, reason } of answers) {
    const name = reason === undefined ? what : `${what} ${reason}`;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

/** The longest that a caller waited for an answer. */
export function slowestMs(answers: readonly CallAnswer[]): number {
  return Math.max(0, ...answers.map(({ sentAtMs, atMs }) => atMs - sentAtMs));
}
