import { randomUUID } from 'node:crypto';
import type { GuestSql, LeaseUseCase } from '@leasehold/keys-core/leases';
import { whileHeld, type Holder } from './while-held.ts';

export type State = 'new' | 'paid' | 'shipped' | 'cancelled';
export type Event = 'pay' | 'ship' | 'cancel';

/** Where each event leads from each state in which it may happen. */
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
  /** Another transition takes longer than one wanted to wait. */
  | { readonly outcome: 'busy'; readonly by: string }
  /** The lease was lost before the new state could be written: the old one stands. */
  | { readonly outcome: 'lost' };

/** The lease of one transition. A success is the new state. */
class TransitionLease implements LeaseUseCase<State> {
  readonly #leaseId = randomUUID();
  readonly #purchase: string;

  constructor(purchase: string) {
    this.#purchase = purchase;
  }

  key = (): string => this.#leaseId;
  scope = () => ({ namespace: ['purchase', 'transition'], key: this.#purchase });
  durationMs = (): number => 10_000;
  setDeadline = (): void => undefined;

  willReleaseOk = (tx: GuestSql, to: State): unknown =>
    tx.$executeRaw`update purchase set state = ${to} where id = ${this.#purchase}`;
}

/**
 * Makes a transition: reads the state, does what the transition means, and writes the new state in
 * the transaction that ends the lease. Of two at once the second begins when the first has ended, and
 * sees its state.
 */
export async function fire(
  { sql, ...holder }: Holder & { readonly sql: GuestSql },
  { purchase, event, waitMs }: { purchase: string; event: Event; waitMs: number },
  act: (from: State, to: State, signal: AbortSignal) => Promise<void>,
): Promise<Transition> {
  const { coordinator } = holder;
  const lease = new TransitionLease(purchase);
  const granted = await coordinator.acquire(lease, waitMs);
  if (granted.outcome === 'held') return { outcome: 'busy', by: granted.by };
  try {
    const from = await stateOf(sql, purchase);
    const to = from === null ? undefined : TRANSITIONS[from][event];
    if (from === null || to === undefined) {
      await coordinator.releaseFail(lease, `${event} may not happen now`);
      return { outcome: 'refused', state: from };
    }
    await whileHeld(holder, { lease, granted }, (signal) => act(from, to, signal));
    const ended = await coordinator.releaseOk(lease, to);
    return ended === 'released' ? { outcome: 'done', from, to } : { outcome: 'lost' };
  } catch (error) {
    await coordinator.releaseFail(lease, error);
    throw error;
  }
}

async function stateOf(sql: GuestSql, purchase: string): Promise<State | null> {
  const rows = await sql.$queryRaw<{ state: State }[]>`
    select state from purchase where id = ${purchase}`;
  return rows[0]?.state ?? null;
}
