/** What a controller does by itself, without being asked. */
import { setMaxListeners } from 'node:events';
import { LeaseError } from '@leasehold/keys-core';
import type { WhileLeader } from '@leasehold/keys-core/leases';
import { pause, type Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import { MORE } from './backlogs.ts';

export interface Job {
  readonly name: string;
  readonly everyMs: number;
  /**
   * `signal` aborts when the round is to be its last one: it may end early. @returns {@link MORE} if the next
   * round is to begin at once.
   */
  run(signal: AbortSignal): Promise<unknown>;
}

export interface Background {
  readonly store: Pick<Store, 'clock' | 'ids'>;
  readonly log: Logger;
}

/** Each round comes up to this share earlier or later, so that controllers do not act in step. */
const JITTER_SHARE = 0.2;

/**
 * Runs each job again and again, each after its last round has ended. A round that fails is logged
 * and the next one runs all the same. @returns a function that ends all, waiting for rounds
 * under way.
 */
export function runInBackground(jobs: readonly Job[], on: Background): () => Promise<void> {
  const stopping = new AbortController();
  const { signal } = stopping;
  // Each job listens to it, and there are more of them than Node takes for a leak.
  setMaxListeners(0, signal);
  const ended = jobs.map(async (job) => {
    await untilNext(job, on, signal);
    await repeat(job, on, signal);
  });
  return async () => {
    stopping.abort();
    await Promise.all(ended);
  };
}

/**
 * A job that only one controller does at a time: it holds a lease, named like the job, for round after
 * round. In a hold-off nobody gets a lease, and every controller does it, which costs more and changes
 * nothing else.
 */
export function inOneController(job: Job, whileLeader: WhileLeader, on: Background): Job {
  return {
    ...job,
    async run(stopping) {
      try {
        await whileLeader(job.name, (signal) => repeat(job, on, signal), stopping);
      } catch (error) {
        if (!(error instanceof LeaseError && error.code === 'grant.hold_off')) throw error;
        await job.run(stopping);
      }
    },
  };
}

async function repeat(job: Job, on: Background, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      if ((await job.run(signal)) === MORE) continue;
    } catch (error) {
      on.log.warn({ err: error, job: job.name }, 'background job failed; it runs again');
    }
    await untilNext(job, on, signal);
  }
}

function untilNext({ everyMs }: Job, { store }: Background, signal: AbortSignal): Promise<void> {
  return pause(store, everyMs * (1 + JITTER_SHARE * (2 * store.ids.random() - 1)), signal);
}
