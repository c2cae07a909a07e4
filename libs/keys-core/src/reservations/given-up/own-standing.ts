/**
 * A datacenter's own part in being given up one day: it tells the others what they would have to know of it,
 * and asks again and again whether it was given up. See ADR 38.
 */
import { LeaseError } from '../../kernel/errors/index.ts';
import type { Store } from '../../postgres/open-store.ts';
import { laterToken } from '../../postgres/witness/witness-stamp.ts';
import type { EtcdGivenUp } from '../etcd/etcd-given-up.ts';
import { noteConfirmed, readClockMs, readConfirmedForMs } from '../sql/given-up.ts';
import type { GivenUp, GivenUpDatacenters, Standing } from './given-up-types.ts';

export interface OwnStandingDeps {
  readonly datacenter: string;
  readonly shared: Pick<EtcdGivenUp, 'changeStanding'>;
  readonly known: GivenUpDatacenters & { refresh(): Promise<void> };
  readonly store: Pick<Store, 'general' | 'clock' | 'witness'>;
  /** How long a key is granted for here. */
  readonly keyTtlMs: number;
  /** For how long after the last contact a controller that was started since may run without etcd. */
  readonly startAloneMs: number;
}

export interface OwnStanding {
  /**
   * Asks whether this datacenter was given up, and tells etcd and the own database what follows.
   * @throws {LeaseError} `reservation.datacenter_given_up`; `reservation.store_unreachable`.
   */
  confirm(): Promise<void>;
  /** For how long a controller that starts now may run without having asked; 0: it may not start. */
  readAloneForMs(): Promise<number>;
}

/** How often what was confirmed is written down: the answer is asked for more often. */
const NOTED_EVERY_MS = 15_000;

export function createOwnStanding(deps: OwnStandingDeps): OwnStanding {
  const { datacenter, shared, known, store, keyTtlMs, startAloneMs } = deps;
  let notedAtMs = -Infinity;
  return {
    async confirm() {
      const nowMs = store.clock.nowMs();
      const isDue = nowMs - notedAtMs >= NOTED_EVERY_MS;
      // Read before etcd is asked: what is confirmed is confirmed for then, and not for later.
      const atMs = isDue ? await readClockMs(store.general) : 0;
      await known.refresh();
      const givenUp = known.find(datacenter);
      if (givenUp !== undefined) throw givenUpError(givenUp);
      if (!isDue) return;
      // The others know how long to wait before this database relies on it.
      await shared.changeStanding(datacenter, (before) =>
        larger(before, { token: tokenNow(atMs), keyTtlMs, startAloneMs }),
      );
      await noteConfirmed(store.general, { atMs, forMs: startAloneMs });
      notedAtMs = nowMs;
    },
    readAloneForMs: () => readConfirmedForMs(store.general),
  };

  function tokenNow(atMs: number): string {
    return laterToken(store.witness.fencingToken, String(Math.ceil(atMs)));
  }
}

/** Never less than what was promised before: another controller here may go by it. */
function larger(before: Standing | undefined, now: Standing): Standing {
  if (before === undefined) return now;
  return {
    token: laterToken(before.token, now.token),
    keyTtlMs: Math.max(before.keyTtlMs, now.keyTtlMs),
    startAloneMs: Math.max(before.startAloneMs, now.startAloneMs),
  };
}

/** Why a datacenter that was given up does not serve. */
export function givenUpError(givenUp: GivenUp): LeaseError {
  const { datacenter, declaredAt, declaredBy, declaredIn, reason, opened } = givenUp;
  const keys =
    opened === null
      ? `Its keys have no other homes yet: \`leasehold datacenters take-back ${datacenter}\` in ${declaredIn} undoes it`
      : 'Its keys get homes elsewhere, and this is final';
  return new LeaseError(
    'reservation.datacenter_given_up',
    `The datacenter "${datacenter}" was given up by ${declaredBy} at ${declaredAt}: ${reason}. ${keys}. Nothing is granted in it.`,
    { details: { datacenter, declaredAt, declaredBy, declaredIn, reason } },
  );
}
