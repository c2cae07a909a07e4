import { randomUUID } from 'node:crypto';
import type {
  Clock,
  CoordinatorAcquireOrRenew,
  LeaseCoordinator,
  LeaseUseCase,
} from '@leasehold/core';

/** How soon to ask again when that failed. */
const RETRY_MS = 250;

export interface Candidate {
  /** Its `holder` is the address of this process. Followers get it. */
  readonly coordinator: LeaseCoordinator<unknown>;
  /** `clock` of the core that made the coordinator. Its deadlines are readings of this clock. */
  readonly clock: Clock;
  /** How long a leader that died still counts as the leader: 1 s to 24 h. */
  readonly ttlMs: number;
  /** Begins to lead. All that it starts must end when `signal` aborts. */
  lead(signal: AbortSignal, fencingToken: string): void;
  /** Called with each answer that names another leader. */
  follow(leaderAddress: string): void;
  /** Called with each failure to ask, four times a second: some, such as missing rights, do not pass by themselves. */
  report(error: unknown): void;
}

/** Takes part in the election, as leader or as follower, until `signal` aborts. */
export async function runForLeader(candidate: Candidate, signal: AbortSignal): Promise<void> {
  const { coordinator, clock, ttlMs } = candidate;
  const leaseId = randomUUID();
  const seat: LeaseUseCase = {
    key: () => leaseId,
    scope: () => ({ namespace: ['controller'], key: 'leader' }),
    durationMs: () => ttlMs,
  };
  let term: Term | undefined;
  while (!signal.aborted) {
    const answer = await askFor(candidate, seat);
    let askAtMs = clock.nowMs() + RETRY_MS;
    if (answer?.outcome === 'held') {
      term?.end();
      term = undefined;
      candidate.follow(answer.by);
      // The lease of a dead leader ends at its expiry. A leader that steps down ends it earlier.
      askAtMs = clock.nowMs() + Math.min(answer.remainingMs, ttlMs / 3);
    } else if (answer !== undefined) {
      term = leadBy(candidate, answer, term);
      askAtMs = answer.deadlines.renewAtMs;
    }
    await reached(clock, askAtMs, signal);
  }
  if (term === undefined) return;
  term.end();
  await coordinator.releaseOk(seat, undefined);
}

/** @returns undefined after a failure. */
async function askFor(
  candidate: Candidate,
  seat: LeaseUseCase,
): Promise<CoordinatorAcquireOrRenew | undefined> {
  try {
    return await candidate.coordinator.acquireOrRenew(seat);
  } catch (error) {
    candidate.report(error);
    return undefined;
  }
}

type GrantedOrRenewed = Exclude<CoordinatorAcquireOrRenew, { readonly outcome: 'held' }>;

/** A new term begins with a new grant, or with a renewal after this process had stopped leading. */
function leadBy(candidate: Candidate, answer: GrantedOrRenewed, before: Term | undefined): Term {
  const isNew = before === undefined || before.signal.aborted || answer.outcome === 'granted';
  if (isNew) before?.end();
  const term = isNew ? new Term(candidate.clock) : before;
  term.lastsUntil(answer.deadlines.loseAtMs);
  if (isNew && !term.signal.aborted) candidate.lead(term.signal, answer.fencingToken);
  return term;
}

/** The time from an election until this process must stop leading. */
class Term {
  readonly #clock: Clock;
  readonly #ending = new AbortController();
  #cancelDeadline = (): void => undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** By this process's own clock: the term ends even if the database cannot be reached. */
  lastsUntil(loseAtMs: number): void {
    this.#cancelDeadline();
    this.#cancelDeadline = this.#clock.at(loseAtMs, () => {
      this.end();
    });
    // The answer came too late to lead by it.
    if (this.#clock.nowMs() >= loseAtMs) this.end();
  }

  end(): void {
    this.#cancelDeadline();
    this.#ending.abort();
  }
}

function reached(clock: Clock, atMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.at(atMs, done);
    function done(): void {
      cancel();
      signal.removeEventListener('abort', done);
      resolve();
    }
    signal.addEventListener('abort', done);
    if (signal.aborted) done();
  });
}
