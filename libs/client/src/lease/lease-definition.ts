/** A kind of lease that a service takes: declared once, taken for many keys. */
import { assertName, assertNamespaceSegments } from './segments.ts';
import type { LeaseAttempt, LeaseTaker, AcquireIntent } from './lease-taker.ts';
import { LeaseLost } from './lease-errors.ts';
import type { Lease } from './lease.ts';

export interface LeaseDefinitionOptions {
  /** How long a grant lasts unless it is renewed: 1 s to 24 h; 30 s unless said. */
  readonly ttlMs?: number | undefined;
  /** How long to stand in line: up to 120 s; 5 s unless said. */
  readonly waitMs?: number | undefined;
  /** For people who look at the namespace. */
  readonly description?: string | undefined;
}

export interface TryAcquireOptions {
  readonly ttlMs?: number | undefined;
  /** Gives up when it aborts: what the attempt was granted is given back. */
  readonly signal?: AbortSignal | undefined;
  /** Shown to callers that are refused. */
  readonly comment?: string | undefined;
  /** Any JSON up to 16 KiB, shown to people. */
  readonly metadata?: unknown;
  /** Who is said to hold it; the client's own unless said. */
  readonly holder?: string | undefined;
  /**
   * The datacenter that holds the lease; that of the controller unless said. Who must exclude each other
   * name the same one: the same scope in two datacenters is two leases. The calls are sent on by the
   * controller, and fail while it cannot reach that datacenter: `reservation.datacenter_unreachable`.
   */
  readonly datacenter?: string | undefined;
}

export interface AcquireOptions extends TryAcquireOptions {
  readonly waitMs?: number | undefined;
}

/** Made by `leasehold.defineLease`. */
export interface LeaseDefinition {
  readonly namespace: readonly string[];
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly description: string | undefined;
  /**
   * Takes the lease of a key, standing in line for up to `waitMs`.
   * @throws {LeaseWaitTimeoutError} it did not become free in time, or `LeaseHeldError` with `waitMs`
   * 0; `LeaseSelfDeadlockError` when this work holds it; `UnreachableError`; `OutcomeUnknownError`;
   * the reason of the signal; `LeaseholdCallError` with another code of the registry.
   */
  acquire(key: string, options?: AcquireOptions): Promise<Lease>;
  /** Takes it if it is free at this moment; who holds it is a value. @throws as {@link acquire}. */
  tryAcquire(key: string, options?: TryAcquireOptions): Promise<LeaseAttempt>;
  /**
   * Takes the lease, runs `work` with it in its context, and releases it: with result `failed` when
   * `work` throws. Use `lease.signal` to stop, and `lease.assertHeld()` before guarded acts.
   * @throws as {@link acquire}; what `work` throws; {@link LeaseLost} when the lease was lost before
   * `work` was done, because what it did may not have been guarded.
   */
  run<T>(key: string, work: (lease: Lease) => T | Promise<T>, options?: AcquireOptions): Promise<T>;
}

const TTL_MS = 30_000;
const WAIT_MS = 5_000;

/** @throws {LeaseholdCallError} `request.invalid` for a namespace that cannot be. */
export function createLeaseDefinition(
  taker: LeaseTaker,
  holder: string,
  { namespace, ...options }: { readonly namespace: readonly string[] } & LeaseDefinitionOptions,
): LeaseDefinition {
  assertNamespaceSegments(namespace);
  const { ttlMs = TTL_MS, waitMs = WAIT_MS, description } = options;

  const intentFor = (key: string, wanted: TryAcquireOptions): Omit<AcquireIntent, 'waitMs'> => {
    assertName('key', key);
    return {
      scope: { face: 'lease', namespace, key },
      ttlMs: wanted.ttlMs ?? ttlMs,
      holder: wanted.holder ?? holder,
      comment: wanted.comment,
      metadata: wanted.metadata,
      datacenter: wanted.datacenter,
      signal: wanted.signal,
      renews: true,
    };
  };

  const definition: LeaseDefinition = {
    namespace,
    ttlMs,
    waitMs,
    description,
    acquire: async (key, wanted = {}) =>
      taker.acquire({ ...intentFor(key, wanted), waitMs: wanted.waitMs ?? waitMs }),
    tryAcquire: async (key, wanted = {}) => taker.tryAcquire(intentFor(key, wanted)),
    run: async (key, work, wanted) => runUnder(await definition.acquire(key, wanted), work),
  };
  return definition;
}

/** Runs `work` under a lease and releases it with how that went. @throws see {@link LeaseDefinition.run}. */
export async function runUnder<T>(
  lease: Lease,
  work: (lease: Lease) => T | Promise<T>,
): Promise<T> {
  let result: T;
  try {
    result = await lease.run(() => work(lease));
  } catch (error) {
    await lease.release('failed', error instanceof Error ? error.message : String(error));
    throw error;
  }
  const { signal } = lease;
  if (signal.aborted && signal.reason instanceof LeaseLost) {
    await lease.release('failed', signal.reason.message);
    throw signal.reason;
  }
  await lease.release();
  return result;
}
