import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import type { Caller } from '../kernel/face-types.ts';
import { createLeaseService } from '../leases/acquiring.ts';
import type {
  AcquireAnswer,
  AcquireInput,
  CallerLife,
  GrantedLease,
  LeaseService,
} from '../leases/lease-types.ts';
import { invariant, LeaseError } from '../kernel/errors.ts';
import type { StoreOptions } from '../postgres/open-store.ts';
import { openKernel, type Kernel } from './kernel-fixture.ts';

/** A controller's leases face on a real database. */
export interface Leases extends Kernel {
  readonly service: LeaseService;
}

/** A service that calls with a token of its own. */
export const SERVICE: Caller = {
  principal: 'token-s',
  actor: 'service',
  role: 'client',
  namespaces: null,
};

/** On a database of its own, or on the one that is named: then it is a second controller. */
export async function openLeases(
  options: Partial<StoreOptions> = {},
  face: 'lease' | 'environment' = 'lease',
): Promise<Leases> {
  const kernel = await openKernel(options);
  const { store, leases } = kernel;
  return { ...kernel, service: createLeaseService({ store, leases, face }) };
}

/** A connection that stays open. */
export const ALIVE: CallerLife = { signal: new AbortController().signal, isAlive: () => true };

/** Asks for `user.update/42` for a minute, without waiting, unless `change` says otherwise. */
export function acquire(
  { service }: Pick<Leases, 'service'>,
  change: Partial<AcquireInput & { localTimeMs: number }> = {},
  { caller = SERVICE, life = ALIVE }: { caller?: Caller; life?: CallerLife } = {},
): Promise<AcquireAnswer> {
  return service.acquire(
    {
      namespace: 'user.update',
      name: '42',
      ttlMs: 60_000,
      waitMs: 0,
      holder: 'alice',
      localTimeMs: 1_000_000,
      idempotencyKey: randomUUID(),
      ...change,
    },
    caller,
    life,
  );
}

/** Acquires or fails the test. */
export async function acquired(
  leases: Pick<Leases, 'service'>,
  change: Partial<AcquireInput & { localTimeMs: number }> = {},
  as: { caller?: Caller; life?: CallerLife } = {},
): Promise<GrantedLease> {
  const answer = await acquire(leases, change, as);
  invariant(answer.outcome === 'granted', `the test expected a grant: ${JSON.stringify(answer)}`);
  return answer.lease;
}

/** Releases, and returns the outcome. */
export function released(
  { service }: Pick<Leases, 'service'>,
  lease: GrantedLease,
  caller: Caller = SERVICE,
): ReturnType<LeaseService['release']> {
  const { leaseId, fencingToken } = lease;
  return service.release({ leaseId, fencingToken, result: 'ok' }, caller);
}

/** The waiters in line, the first one first. */
export async function lineOf({ store }: Kernel, name = '42'): Promise<string[]> {
  const rows = await store.general.$queryRaw<{ waiter: string }[]>`
    select waiter from lease_waiter w
    where face <> 'key' and name = ${name} and valid_until > clock_timestamp()
    order by lease_waiter_place(w)`;
  return rows.map((row) => row.waiter);
}

/** Asks for the lease, and is in line when this resolves. */
export async function inLine(
  at: Leases,
  holder: string,
  change: Parameters<typeof acquire>[1] = {},
  life: CallerLife = ALIVE,
  caller: Caller = SERVICE,
): Promise<{ answer: Promise<AcquireAnswer> }> {
  const answer = acquire(at, { waitMs: 60_000, holder, ...change }, { life, caller });
  let failure: { readonly cause: unknown } | undefined;
  answer.catch((cause: unknown) => (failure = { cause }));
  await waitUntil(async () => {
    // It is the cause, if the caller is never in line.
    if (failure !== undefined) throw new Error('it was refused', failure);
    return (await lineOf(at, change.name)).includes(holder);
  });
  return { answer };
}

/** A caller whose connection a test can close, or that a test can make silent. */
export function aCaller(): CallerLife & { vanish(): void; fallSilent(): void } {
  const gone = new AbortController();
  let isAlive = true;
  return {
    signal: gone.signal,
    isAlive: () => isAlive,
    vanish: () => {
      gone.abort(new Error('connection closed'));
    },
    fallSilent: () => {
      isAlive = false;
    },
  };
}

/** The code that a promise fails with. */
export async function codeOf(failing: Promise<unknown>): Promise<string> {
  return failing.then(
    () => 'no error',
    (error: unknown) => (error instanceof LeaseError ? error.code : String(error)),
  );
}

/** Whether a statement of this database waits for a lock. */
export async function isSomeoneWaiting({ store }: Kernel): Promise<boolean> {
  const [row] = await store.general.$queryRaw<{ waiting: boolean }[]>`
    select exists (
      select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()
    ) as waiting`;
  return row?.waiting === true;
}
