import { randomInt, randomUUID } from 'node:crypto';
import os from 'node:os';
import { onTestFinished } from 'vitest';
import { createTestDatabase, waitUntil } from '@leasehold/testing';
import type { Actor } from '../kernel/access.ts';
import type { Clock, IdSource } from '../kernel/clock.ts';
import { serviceLadder } from '../kernel/ladder.ts';
import type { Grant, GrantRef, GrantRequest } from '../kernel/lease.ts';
import { invariant } from '../kernel/errors.ts';
import type { ClockWatch } from '../postgres/clock/clock-watch.ts';
import { guardNow } from '../grants/sql/guard.ts';
import { createLeaseStore, type LeaseStore } from '../grants/lease-store.ts';
import { openStore, type Store, type StoreOptions } from '../postgres/open-store.ts';
import type { RecordPool } from '../postgres/records.ts';
import type { GrantGuard } from '../postgres/clock/expiry.ts';
import type { ReleaseRequest } from '../grants/sql/release.ts';
import type { RenewRequest } from '../grants/sql/renew.ts';
import { keepStores } from './kept-stores.ts';

/** Who acts, for the audit. */
export const BY: Actor = { actor: 'olga@example.com', role: 'operator', source: '10.0.0.1' };
/** Whose acts cannot be audited: no text of the database has this character. */
export const UNAUDITED: Actor = { ...BY, source: '\0' };

/** The clock of this machine, for tests that wait for real things. */
export const MACHINE_CLOCK: Clock = {
  nowMs: () => os.uptime() * 1_000,
  at(atMs, fn) {
    const timer = setTimeout(fn, Math.max(0, atMs - os.uptime() * 1_000));
    return () => {
      clearTimeout(timer);
    };
  },
};

const ALPHANUMERIC = 'abcdefghijklmnopqrstuvwxyz0123456789';

export const MACHINE_IDS: IdSource = {
  uuid: () => randomUUID(),
  alphanumeric: (length) =>
    Array.from({ length }, () => ALPHANUMERIC[randomInt(ALPHANUMERIC.length)]).join(''),
  random: () => randomInt(1e9) / 1e9,
};

/**
 * Believes whatever the database's clock says: tests move grants into the past, and the clock. Tests of
 * the watch itself give `clockWatch: undefined`, and get the store's own.
 */
export const TRUSTING_WATCH: ClockWatch = {
  observe: () => undefined,
  belief: () => ({ until: 8.64e15, watchedSince: 0, settledUntil: 0 }),
  doubtMs: () => 0,
  adopt: () => undefined,
  settle: () => undefined,
  memory: undefined,
};

/** For statements that are explained and not carried out. */
export const A_GUARD: GrantGuard = {
  belief: TRUSTING_WATCH.belief(0),
  mark: { witnessId: randomUUID(), beat: 1, at: Date.now(), run: '0', position: '0/0' },
};

/** The guard of a statement that grants, for tests that send one directly. */
export async function aGuard(store: Store): Promise<GrantGuard> {
  await store.witness.ready();
  return guardNow(store);
}

/** In tests, the general pool takes the statements of all pools. */
export type TestStore = Omit<Store, 'general'> & { readonly general: RecordPool<never> };

export interface Kernel {
  readonly store: TestStore;
  readonly leases: LeaseStore;
  readonly databaseUrl: string;
}

function openTrusting(databaseUrl: string, options: Partial<StoreOptions> = {}): Store {
  return openStore({
    datacenter: 'local',
    clock: MACHINE_CLOCK,
    ids: MACHINE_IDS,
    clockWatch: TRUSTING_WATCH,
    ...options,
    databaseUrl,
  });
}

const takeStore = keepStores(openTrusting);

/**
 * A kernel on a database of its own, which trusts its clock; closed when the test ends. One without options of
 * its own, or as a second one on the database of such a one, is open already.
 */
export async function openKernel(options: Partial<StoreOptions> = {}): Promise<Kernel> {
  const { databaseUrl: wanted, datacenter, observer, ...special } = options;
  const taken = Object.keys(special).length === 0 ? await takeStore(wanted) : undefined;
  if (taken !== undefined) {
    const { databaseUrl } = taken;
    const store = {
      ...taken.store,
      datacenter: datacenter ?? taken.store.datacenter,
      observer: observer ?? taken.store.observer,
    } as TestStore;
    return { store, leases: createLeaseStore(store), databaseUrl };
  }
  const databaseUrl = wanted ?? (await createTestDatabase()).url;
  const store = openTrusting(databaseUrl, options) as TestStore;
  onTestFinished(() => store.close());
  return { store, leases: createLeaseStore(store), databaseUrl };
}

/** A kernel on a database that no test has used, for tests of what is there only once: its epoch, its first event. */
export async function openFreshKernel(): Promise<Kernel> {
  return openKernel({ databaseUrl: (await createTestDatabase()).url });
}

/** The request of a test that does not care about its details. */
export function aRequest(change: Partial<GrantRequest> = {}): GrantRequest {
  return {
    face: 'lease',
    namespace: 'test',
    name: 'thing',
    leaseId: randomUUID(),
    holder: 'alice',
    principal: 'token-a',
    tag: '',
    comment: null,
    metadata: null,
    ladder: serviceLadder(60_000),
    actor: 'alice',
    ...change,
  };
}

/** Grants or fails the test. */
export async function granted(kernel: Kernel, change: Partial<GrantRequest> = {}): Promise<Grant> {
  const outcome = await kernel.leases.grant(aRequest(change));
  invariant(
    outcome.outcome === 'granted',
    `the test expected a grant, and it is ${outcome.outcome}`,
  );
  return outcome.grant;
}

export function renewalOf(ref: GrantRef, change: Partial<RenewRequest> = {}): RenewRequest {
  return { leaseId: ref.leaseId, fencingToken: ref.fencingToken, principal: 'token-a', ...change };
}

export function releaseOf(ref: GrantRef, change: Partial<ReleaseRequest> = {}): ReleaseRequest {
  return { ...renewalOf(ref), actor: 'alice', result: 'ok', detail: null, ...change };
}

/**
 * Resolves when a store listens for hints. At that moment every waiter gets one, and looks once more, which a
 * test that counts looks must not meet halfway.
 */
export async function hearsHints({ store }: Pick<Kernel, 'store'>): Promise<void> {
  const topic = randomUUID();
  let isHeard = false;
  const close = store.hints.on(topic, () => (isHeard = true));
  const payload = JSON.stringify([topic]);
  await waitUntil(
    async () => {
      await store.general
        .$queryRaw`select pg_notify('leasehold_hint_' || current_schema(), ${payload})::text`;
      return isHeard;
    },
    { what: 'a hint of another session' },
  ).finally(close);
}

/** Moves a grant into the past, as if `byMs` had gone by. Tests do not sleep. */
export async function age(kernel: Kernel, leaseId: string, byMs: number): Promise<void> {
  await kernel.store.general.$executeRaw`
    update lease
    set granted_at = granted_at - ${byMs} * interval '1 millisecond',
        renewed_at = renewed_at - ${byMs} * interval '1 millisecond',
        expires_at = expires_at - ${byMs} * interval '1 millisecond',
        stops_by = stops_by - ${byMs} * interval '1 millisecond',
        released_at = released_at - ${byMs} * interval '1 millisecond'
    where lease_id = ${leaseId}::uuid`;
}

/** The events of a resource, oldest first, as `kind token`. */
export async function eventsOf(kernel: Kernel, name: string): Promise<string[]> {
  const rows = await kernel.store.general.$queryRaw<{ line: string }[]>`
    select kind || ' ' || fencing_token as line from lease_event where name = ${name} order by id`;
  return rows.map((row) => row.line);
}
