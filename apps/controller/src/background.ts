/** What a controller does by itself, without being asked. */
import type { Logger } from '@leasehold/service-kit';

export interface Job {
  readonly name: string;
  readonly everyMs: number;
  run(): Promise<unknown>;
}

/** Each round comes up to this share later or sooner, so that controllers do not act in step. */
const JITTER_SHARE = 0.2;

/**
 * Runs each job again and again, each after its last round has ended. A round that fails is logged
 * and the next one comes as if it had not. @returns a function that ends all, waiting for rounds
 * under way.
 */
export function runInBackground(
  jobs: readonly Job[],
  log: Logger,
  random: () => number,
): () => Promise<void> {
  const stopping = new AbortController();
  const ended = jobs.map((job) => repeat(job, { log, random, signal: stopping.signal }));
  return async () => {
    stopping.abort();
    await Promise.all(ended);
  };
}

async function repeat(
  job: Job,
  on: { log: Logger; random: () => number; signal: AbortSignal },
): Promise<void> {
  for (;;) {
    await pause(job.everyMs * (1 + JITTER_SHARE * (2 * on.random() - 1)), on.signal);
    if (on.signal.aborted) return;
    try {
      await job.run();
    } catch (error) {
      on.log.warn({ err: error, job: job.name }, 'background job failed; it runs again');
    }
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    signal.addEventListener('abort', finish);
    if (signal.aborted) finish();
  });
}
