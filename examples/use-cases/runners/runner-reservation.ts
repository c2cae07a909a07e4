import { randomUUID } from 'node:crypto';
import {
  LeaseError,
  type LeaseCoordinator,
  type LeaseUseCase,
  type PgTransaction,
  type StaleReap,
} from '@leasehold/core';

const NAMESPACE = ['runner', 'reserve'];

export type Reservation =
  | { readonly outcome: 'assigned' }
  | { readonly outcome: 'taken'; readonly by: string; readonly why: string | null }
  /** This controller lost the lease before the deployment had started. */
  | { readonly outcome: 'lost' };

class RunnerReservation implements LeaseUseCase<void, PgTransaction> {
  readonly #leaseId = randomUUID();
  readonly #runner: string;
  readonly #deployment: string;

  constructor(runner: string, deployment: string) {
    this.#runner = runner;
    this.#deployment = deployment;
  }

  key = (): string => this.#leaseId;
  scope = () => ({ namespace: NAMESPACE, key: this.#runner });
  durationMs = (): number => 10_000;
  // Refused callers get this comment.
  comment = (): string => `starts ${this.#deployment}`;

  async willInsert(tx: PgTransaction): Promise<void> {
    const reserved = await tx.query(
      `update runner_slot set state = 'reserved', deployment = $3, lease_id = $2
       where runner = $1 and state = 'idle'`,
      [this.#runner, this.#leaseId, this.#deployment],
    );
    // This rolls the grant back too.
    if (reserved.rowCount === 0) throw new RunnerNotIdle();
  }

  willReleaseOk = (tx: PgTransaction): unknown =>
    tx.query(
      `update runner_slot set state = 'assigned', lease_id = null
       where runner = $1 and lease_id = $2`,
      [this.#runner, this.#leaseId],
    );

  willReleaseFail = (tx: PgTransaction): unknown => freeAgain(tx, this.#runner, this.#leaseId);
}

class RunnerNotIdle extends Error {}

/** Reserves a runner, waits until `start` has started the deployment there, and assigns it. */
export async function reserveRunner(
  coordinator: LeaseCoordinator<PgTransaction>,
  { runner, deployment }: { runner: string; deployment: string },
  start: (signal: AbortSignal) => Promise<void>,
): Promise<Reservation> {
  const lease = new RunnerReservation(runner, deployment);
  let granted;
  try {
    granted = await coordinator.acquire(lease, 0);
  } catch (error) {
    if (error instanceof RunnerNotIdle) return { outcome: 'taken', by: 'a deployment', why: null };
    throw error;
  }
  if (granted.outcome === 'held') return { outcome: 'taken', by: granted.by, why: granted.comment };
  try {
    await coordinator.whileHeld(lease, start);
    return { outcome: 'assigned' };
  } catch (error) {
    if (error instanceof LeaseError && error.code === 'lease.lost') return { outcome: 'lost' };
    throw error;
  }
}

/** Frees runners whose controller died while it was reserving them. */
export function reapReservations(coordinator: LeaseCoordinator<PgTransaction>): Promise<StaleReap> {
  return coordinator.reapStaleLeases([NAMESPACE], false, (leaseId, { key }, tx) =>
    freeAgain(tx, key, leaseId),
  );
}

function freeAgain(tx: PgTransaction, runner: string, leaseId: string): unknown {
  return tx.query(
    `update runner_slot set state = 'idle', deployment = null, lease_id = null
     where runner = $1 and lease_id = $2`,
    [runner, leaseId],
  );
}
