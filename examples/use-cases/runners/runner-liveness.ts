import { randomUUID } from 'node:crypto';
import type { LeaseCoordinator, LeaseUseCase, PgTransaction, StaleReap } from '@leasehold/core';

const NAMESPACE = ['runner', 'liveness'];

/** What a runner sends repeatedly to the controller that it is connected to. */
export interface RunnerMessage {
  readonly key: string;
  readonly endpoint: string;
}

/**
 * Runners that reported within `ttlMs` are alive. All controllers share one holder's name, so
 * that a runner's lease goes on when the runner connects to another of them.
 */
export class RunnerLiveness {
  readonly #coordinator: LeaseCoordinator<PgTransaction>;
  readonly #ttlMs: number;

  /** `coordinator` has the same holder, such as `controllers`, in every controller. */
  constructor(coordinator: LeaseCoordinator<PgTransaction>, ttlMs: number) {
    this.#coordinator = coordinator;
    this.#ttlMs = ttlMs;
  }

  /** @returns false if an operator does not allow this runner's lease to be renewed. */
  async heard({ key, endpoint }: RunnerMessage): Promise<boolean> {
    const lease: LeaseUseCase<void, PgTransaction> = {
      key: () => randomUUID(),
      scope: () => ({ namespace: NAMESPACE, key }),
      durationMs: () => this.#ttlMs,
      willInsert: (tx, _at, { leaseId }) =>
        tx.query(
          `insert into runner (key, endpoint, state, lease_id) values ($1, $2, 'alive', $3)
           on conflict (key) do update
           set endpoint = excluded.endpoint, state = 'alive', lease_id = excluded.lease_id`,
          [key, endpoint, leaseId],
        ),
      willHeartbeat: (tx) =>
        tx.query('update runner set endpoint = $2 where key = $1 and endpoint <> $2', [
          key,
          endpoint,
        ]),
    };
    const answer = await this.#coordinator.acquireOrRenew(lease);
    return answer.outcome !== 'held';
  }

  /** Marks runners dead that have stopped reporting. Every controller calls it regularly. */
  reap(): Promise<StaleReap> {
    return this.#coordinator.reapStaleLeases([NAMESPACE], false, (leaseId, { key }, tx) =>
      // If the runner has come back, its row has another lease.
      tx.query(`update runner set state = 'dead' where key = $1 and lease_id = $2`, [key, leaseId]),
    );
  }
}
