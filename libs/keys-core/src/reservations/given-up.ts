import type { Logger } from '@leasehold/service-kit';
import type { Actor } from '../kernel/access.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Store } from '../postgres/open-store.ts';
import { laterToken } from '../postgres/witness/witness-stamp.ts';
import type { EtcdGivenUp, ReadGivenUp } from './etcd/etcd-given-up.ts';
import {
  noteConfirmed,
  readClockMs,
  readConfirmedForMs,
  readGivenUp,
  rememberGivenUp,
} from './sql/membership.ts';

/** A datacenter that somebody has declared lost. Instants are ISO-8601, by the database that wrote them. */
export interface GivenUp {
  readonly datacenter: string;
  readonly declaredAt: string;
  readonly declaredBy: string;
  /** The datacenter in which that was done. */
  readonly declaredIn: string;
  readonly reason: string;
  /** Null while its keys wait: somebody there may still act on them. */
  readonly opened: Opened | null;
}

/** From when on its keys may be given other homes. Final. */
export interface Opened {
  readonly at: string;
  readonly by: string;
  readonly reason: string;
  /** Every token in another home is greater; a decimal string. */
  readonly tokenFloor: string;
  /** Whether somebody was certain that nothing runs there, and did not wait. */
  readonly isAbandoned: boolean;
}

/** What a datacenter has made known of itself, for those who may have to give it up. */
export interface Standing {
  /** No token that it had given by then was greater; a decimal string. */
  readonly token: string;
  /** The longest time for which a key is granted there. */
  readonly keyTtlMs: number;
  /** For how long after its last contact with the store a controller that starts there runs without it. */
  readonly startAloneMs: number;
}

/** As operators see it. */
export interface GivenUpView extends GivenUp {
  /** How long its keys wait still; 0 when they need not, null when only somebody who is certain can end it. */
  readonly remainingMs: number | null;
}

/** The datacenters that were given up, from memory: at most a few seconds old. */
export interface GivenUpDatacenters {
  /** What is known; undefined for a datacenter that was not given up. */
  find(datacenter: string): GivenUp | undefined;
  list(): GivenUpView[];
}

export const NONE_GIVEN_UP: GivenUpDatacenters = { find: () => undefined, list: () => [] };

export interface GiveUpInput {
  readonly datacenter: string;
  readonly reason: string;
  /** Nothing runs there, and the caller answers for it: nobody waits. */
  readonly abandon: boolean;
}

/** Giving up a datacenter that is permanently lost. */
export interface GiveUpService {
  list(): GivenUpView[];
  /**
   * The first time it declares the datacenter lost: from then on it no longer starts, and stops when it learns
   * of it. Again, after the wait, or with `abandon`, it lets its keys be given other homes, permanently.
   * @throws {LeaseError} `reservation.unknown_datacenter`, `reservation.datacenter_reachable`,
   * `reservation.give_up_early` with `details.remainingMs`, `reservation.store_unreachable`.
   */
  giveUp(input: GiveUpInput, actor: Actor): Promise<GivenUpView>;
  /**
   * Takes the declaration back, while its keys wait.
   * @throws {LeaseError} `reservation.not_given_up`, `reservation.datacenter_given_up` when it is final.
   */
  takeBack(
    input: { readonly datacenter: string; readonly reason: string },
    actor: Actor,
  ): Promise<void>;
}

/** The datacenters that were given up, as the store had them a moment ago. */
export interface KnownGivenUp extends GivenUpDatacenters {
  /** What this database remembers, before the store was asked. */
  load(): Promise<void>;
  /** Asks the store. Linearizable. @throws {LeaseError} `reservation.store_unreachable`. */
  refresh(): Promise<void>;
}

export function createKnownGivenUp(deps: {
  readonly shared: Pick<EtcdGivenUp, 'list' | 'remainingMs'>;
  readonly store: Pick<Store, 'general'>;
  readonly log: Logger;
}): KnownGivenUp {
  const { shared, store, log } = deps;
  let known = new Map<string, GivenUpView>();

  /** What is final is kept: an etcd that is replaced is told of it again. */
  async function note(row: GivenUp): Promise<void> {
    const before = known.get(row.datacenter);
    const isNews = before === undefined || (before.opened === null) !== (row.opened === null);
    if (!isNews) return;
    if (row.opened !== null) await rememberGivenUp(store.general, row);
    log.warn(row, 'a datacenter was given up');
  }

  return {
    find: (datacenter) => known.get(datacenter),
    list: () => [...known.values()],
    async load() {
      const rows = await readGivenUp(store.general);
      known = new Map(rows.map((row) => [row.datacenter, { ...row, remainingMs: 0 }]));
    },
    async refresh() {
      const rows = await shared.list();
      const views: GivenUpView[] = [];
      for (const row of rows.map(withoutRevision)) {
        await note(row);
        const remainingMs = row.opened === null ? await shared.remainingMs(row.datacenter) : 0;
        views.push({ ...row, remainingMs });
      }
      known = new Map(views.map((view) => [view.datacenter, view]));
    },
  };
}

function withoutRevision({ revision: _revision, ...row }: ReadGivenUp): GivenUp {
  return row;
}

// A datacenter's own part in being given up one day: it tells the others what they would have to know of it,
// and asks again and again whether it was given up. See ADR 38.

interface OwnStandingDeps {
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
