import { randomUUID } from 'node:crypto';
import {
  LeaseError,
  type LeaseCoordinator,
  type LeaseUseCase,
  type PgTransaction,
} from '@leasehold/core';
import type { Pool } from 'pg';

export type State = 'new' | 'paid' | 'shipped' | 'cancelled';
export type Event = 'pay' | 'ship' | 'cancel';

/** The next state for each event, by the state in which it may happen. */
const TRANSITIONS: Readonly<Record<State, Partial<Record<Event, State>>>> = {
  new: { pay: 'paid', cancel: 'cancelled' },
  paid: { ship: 'shipped', cancel: 'cancelled' },
  shipped: {},
  cancelled: {},
};

export type Transition =
  | { readonly outcome: 'done'; readonly from: State; readonly to: State }
  /** The event may not happen in this state. */
  | { readonly outcome: 'refused'; readonly state: State | null }
  /** Another transition did not end within `waitMs`. */
  | { readonly outcome: 'busy'; readonly by: string }
  /** The lease was lost before the new state could be written: the old one is still valid. */
  | { readonly outcome: 'lost' };

interface Step {
  readonly from: State;
  readonly to: State;
}

/** The lease of one transition. A success is the step that was made. */
class TransitionLease implements LeaseUseCase<Step, PgTransaction> {
  readonly #leaseId = randomUUID();
  readonly #purchase: string;

  constructor(purchase: string) {
    this.#purchase = purchase;
  }

  key = (): string => this.#leaseId;
  scope = () => ({ namespace: ['purchase', 'transition'], key: this.#purchase });
  durationMs = (): number => 10_000;

  willReleaseOk = (tx: PgTransaction, { to }: Step): unknown =>
    tx.query('update purchase set state = $2 where id = $1', [this.#purchase, to]);
}

interface Connected {
  readonly coordinator: LeaseCoordinator<PgTransaction>;
  readonly pool: Pool;
}

/**
 * Makes a transition: reads the state, does what the transition means, and writes the new state in
 * the transaction that ends the lease. Of two at once the second begins when the first has ended, and
 * sees its state.
 */
export async function fire(
  { coordinator, pool }: Connected,
  { purchase, event, waitMs }: { purchase: string; event: Event; waitMs: number },
  act: (from: State, to: State, signal: AbortSignal) => Promise<void>,
): Promise<Transition> {
  const lease = new TransitionLease(purchase);
  const granted = await coordinator.acquire(lease, waitMs);
  if (granted.outcome === 'held') return { outcome: 'busy', by: granted.by };
  try {
    const step = await coordinator.whileHeld(lease, async (signal) => {
      const from = await stateOf(pool, purchase);
      const to = from === null ? undefined : TRANSITIONS[from][event];
      if (from === null || to === undefined) throw new MayNotHappen(event, from);
      await act(from, to, signal);
      return { from, to };
    });
    return { outcome: 'done', ...step };
  } catch (error) {
    if (error instanceof MayNotHappen) return { outcome: 'refused', state: error.state };
    if (error instanceof LeaseError && error.code === 'lease.lost') return { outcome: 'lost' };
    throw error;
  }
}

class MayNotHappen extends Error {
  readonly state: State | null;

  constructor(event: Event, state: State | null) {
    super(`${event} may not happen now`);
    this.state = state;
  }
}

async function stateOf(pool: Pool, purchase: string): Promise<State | null> {
  const { rows } = await pool.query<{ state: State }>('select state from purchase where id = $1', [
    purchase,
  ]);
  return rows[0]?.state ?? null;
}
