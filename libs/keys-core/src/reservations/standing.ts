/** What a datacenter knows of those that were given up, and its own part in being given up one day. */
import type { Logger } from '@leasehold/service-kit';
import type { Store } from '../postgres/open-store.ts';
import { laterToken } from '../postgres/witness/witness-stamp.ts';
import type { EtcdGivenUp, ReadGivenUp } from './etcd/etcd-given-up.ts';
import {
  type GivenUp,
  type GivenUpDatacenters,
  givenUpError,
  type GivenUpView,
  type Standing,
} from './given-up.ts';
import {
  noteConfirmed,
  readClockMs,
  readConfirmedForMs,
  readGivenUp,
  rememberGivenUp,
} from './sql/membership.ts';

/** The datacenters that were given up, as the store had them a moment ago. */
export interface KnownGivenUp extends GivenUpDatacenters {
  /** What this database remembers, before the store was asked. */
  load(): Promise<void>;
  /**
   * Asks the store, and not this database. Linearizable. What was final stays known, also where the store was restored
   * to before it.
   * @throws {LeaseError} `reservation.store_unreachable`.
   */
  ask(): Promise<void>;
  /** Writes what is known, and final, to this database: an etcd that is replaced is told of it again. */
  remember(): Promise<void>;
  /** Both. @throws {LeaseError} `reservation.store_unreachable`. */
  refresh(): Promise<void>;
}

export function createKnownGivenUp(deps: {
  readonly shared: Pick<EtcdGivenUp, 'list' | 'remainingMs'>;
  readonly store: Pick<Store, 'general'>;
  readonly log: Logger;
}): KnownGivenUp {
  const { shared, store, log } = deps;
  let known = new Map<string, GivenUpView>();
  const remembered = new Set<string>();

  function note(row: GivenUp): void {
    const before = known.get(row.datacenter);
    const isNews = before === undefined || (before.opened === null) !== (row.opened === null);
    if (isNews) log.warn(row, 'a datacenter was given up');
  }

  const itself: KnownGivenUp = {
    find: (datacenter) => known.get(datacenter),
    list: () => [...known.values()],
    async load() {
      const rows = await readGivenUp(store.general);
      known = new Map(rows.map((row) => [row.datacenter, { ...row, remainingMs: 0 }]));
      for (const { datacenter } of rows) remembered.add(datacenter);
    },
    async ask() {
      const rows = await shared.list();
      const views: GivenUpView[] = [];
      const final = [...known.values()].filter(({ opened }) => opened !== null);
      const stored = rows.filter((row) => row.opened !== null || !final.some(isOf(row)));
      for (const row of stored.map(withoutRevision)) {
        note(row);
        const remainingMs = row.opened === null ? await shared.remainingMs(row.datacenter) : 0;
        views.push({ ...row, remainingMs });
      }
      const kept = final.filter((view) => !views.some(isOf(view)));
      known = new Map([...views, ...kept].map((view) => [view.datacenter, view]));
    },
    async remember() {
      for (const row of [...known.values()].map(withoutRemaining)) {
        if (row.opened === null || remembered.has(row.datacenter)) continue;
        await rememberGivenUp(store.general, row);
        remembered.add(row.datacenter);
      }
    },
    async refresh() {
      await itself.ask();
      await itself.remember();
    },
  };
  return itself;
}

function isOf({ datacenter }: GivenUp): (other: GivenUp) => boolean {
  return (other) => other.datacenter === datacenter;
}

function withoutRevision({ revision: _revision, ...row }: ReadGivenUp): GivenUp {
  return row;
}

function withoutRemaining({ remainingMs: _remainingMs, ...row }: GivenUpView): GivenUp {
  return row;
}

// A datacenter's own part in being given up one day: it tells the others what they would have to know of it,
// and asks again and again whether it was given up. See ADR 38.

interface OwnStandingDeps {
  readonly datacenter: string;
  readonly shared: Pick<EtcdGivenUp, 'changeStanding'>;
  readonly known: Pick<KnownGivenUp, 'find' | 'ask' | 'remember'>;
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

  async function assertNotGivenUp(): Promise<void> {
    await known.ask();
    const givenUp = known.find(datacenter);
    if (givenUp === undefined) return;
    // So that the next start is refused even if the store is restored to before it. What fails here must not hide it.
    await known.remember().catch(() => undefined);
    throw givenUpError(givenUp);
  }

  return {
    async confirm() {
      const nowMs = store.clock.nowMs();
      const isDue = nowMs - notedAtMs >= NOTED_EVERY_MS;
      // Before anything of the own database, which may be what fails here.
      await assertNotGivenUp();
      await known.remember();
      if (!isDue) return;
      // Read before etcd is asked once more: what is confirmed is confirmed for then, and not for later.
      const atMs = await readClockMs(store.general);
      await assertNotGivenUp();
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
