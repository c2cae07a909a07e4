import { randomUUID } from 'node:crypto';
import {
  LeaseError,
  type LeaseCoordinator,
  type LeaseUseCase,
  type PgTransaction,
  type StaleReap,
} from '@leasehold/core';
import type { Pool } from 'pg';

const NAMESPACE = ['async', 'call'];

interface Call {
  readonly id: string;
  readonly verb: string;
  readonly request: unknown;
}

/** Executes a call. Stops when `signal` aborts: another coordinator may execute the call again. */
export type Execute = (call: Call, signal: AbortSignal) => Promise<unknown>;

/** Executes one call. What it writes about the call is in the transactions of its lease. */
class CallLease implements LeaseUseCase<unknown, PgTransaction> {
  readonly #leaseId = randomUUID();
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  key = (): string => this.#leaseId;
  scope = () => ({ namespace: NAMESPACE, key: this.#call.id });
  durationMs = (): number => 10_000;

  async willInsert(tx: PgTransaction): Promise<void> {
    const begun = await tx.query(
      `update async_call
       set state = 'executing', attempts_left = attempts_left - 1, lease_id = $2
       where id = $1 and state = 'pending'`,
      [this.#call.id, this.#leaseId],
    );
    // Another coordinator has executed it since it was read. The grant is rolled back.
    if (begun.rowCount === 0) throw new NotPending();
  }

  willReleaseOk(tx: PgTransaction, response: unknown): unknown {
    return tx.query(
      `update async_call set state = 'done', response = $3, lease_id = null
       where id = $1 and lease_id = $2`,
      [this.#call.id, this.#leaseId, JSON.stringify(response ?? null)],
    );
  }

  willReleaseFail = (tx: PgTransaction, failure: unknown): unknown =>
    tryAgain(tx, { id: this.#call.id, leaseId: this.#leaseId, why: String(failure) });
}

class NotPending extends Error {}

export class AsyncCalls {
  readonly #coordinator: LeaseCoordinator<PgTransaction>;
  readonly #pool: Pool;

  constructor(coordinator: LeaseCoordinator<PgTransaction>, pool: Pool) {
    this.#coordinator = coordinator;
    this.#pool = pool;
  }

  /** @returns the id of a call that some coordinator will execute. */
  async schedule(verb: string, request: unknown): Promise<string> {
    const { rows } = await this.#pool.query<{ id: string }>(
      'insert into async_call (verb, request) values ($1, $2) returning id::text',
      [verb, JSON.stringify(request)],
    );
    return rows[0]?.id ?? '';
  }

  /** Executes the oldest pending call. `lost`: another coordinator executes it, or has done so. */
  async executeNext(execute: Execute): Promise<'done' | 'failed' | 'lost' | 'nothing to do'> {
    for (const call of await this.#pending()) {
      const lease = new CallLease(call);
      const granted = await this.#coordinator.acquire(lease, 0).catch(undefinedIfNotPending);
      if (granted?.outcome !== 'granted') continue;
      return this.#execute(call, lease, execute);
    }
    return 'nothing to do';
  }

  /** Makes calls of dead coordinators pending again. Every coordinator calls it regularly. */
  reap(): Promise<StaleReap> {
    return this.#coordinator.reapStaleLeases([NAMESPACE], false, (leaseId, { key }, tx) =>
      tryAgain(tx, { id: key, leaseId, why: 'its coordinator died' }),
    );
  }

  async #execute(
    call: Call,
    lease: CallLease,
    execute: Execute,
  ): Promise<'done' | 'failed' | 'lost'> {
    let isExecuted = false as boolean;
    try {
      // The response is written if, and only if, the lease was held to the end.
      await this.#coordinator.whileHeld(lease, async (signal) => {
        const response = await execute(call, signal);
        isExecuted = true;
        return response;
      });
      return 'done';
    } catch (error) {
      if (error instanceof LeaseError && error.code === 'lease.lost') return 'lost';
      // Its response could not be written. The call is executed again after its lease has expired.
      if (isExecuted) throw error;
      return 'failed';
    }
  }

  async #pending(): Promise<Call[]> {
    const { rows } = await this.#pool.query<Call>(
      `select id::text, verb, request from async_call
       where state = 'pending' order by id limit 10`,
    );
    return rows;
  }
}

/** Ends an execution without a response. A call without attempts left has failed. */
function tryAgain(
  tx: PgTransaction,
  { id, leaseId, why }: { id: string; leaseId: string; why: string },
): unknown {
  return tx.query(
    `update async_call
     set state = case when attempts_left > 0 then 'pending' else 'failed' end,
         error = $3, lease_id = null
     where id = $1 and lease_id = $2`,
    [id, leaseId, why],
  );
}

function undefinedIfNotPending(error: unknown): undefined {
  if (!(error instanceof NotPending)) throw error;
}
